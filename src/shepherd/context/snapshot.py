"""P0 to P2 of a session, and the summary behind them: rendered once, frozen, rendered again when told to.

Told by /context refresh, a compaction (the cache is lost there anyway), or another model.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from shepherd.config import Config
from shepherd.context.instructions import Preferences, personality, preferences_block
from shepherd.context.prompt import ONE_SHOT_EXPLANATION, SystemPrompt, render_system
from shepherd.context.summary import NO_SUMMARY, Summary
from shepherd.knowledge import Hub, Knowledge, background_block, role_of

__all__ = ["Before", "Snapshot", "changed_since", "look_around", "take_snapshot"]

# Of the window, for P0 to P2, where no other budget is set: 500 tokens of 4,096.
_SYSTEM_SHARE = 8


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The frozen part of the prompt, and what went into it. `system` carries the hash that turns check."""

    system: SystemPrompt
    personality: str = ""
    preferences: str = ""
    background: str = ""
    hubs: tuple[Hub, ...] = ()
    summary: Summary = NO_SUMMARY
    blocks: bool = False


@dataclass(frozen=True, slots=True)
class Before:
    """What of the knowledge a conversation's system part has: hubs, and whether it explains blocks."""

    hubs: tuple[Hub, ...] = ()
    blocks: bool = False


def take_snapshot(
    config: Config,
    *,
    memory: bool,
    knowledge: Knowledge | None,
    summary: Summary = NO_SUMMARY,
    window_tokens: int,
    count: Callable[[str], int],
    one_shot: bool = False,
    instructions: str = "",
    before: Before | None = None,
) -> Snapshot:
    """What holds until the next snapshot. `memory`: whether tails are to be explained, or, if `one_shot`,
    sections.

    `instructions`: a client's own, in place of those that are set, personality and preferences among them.
    `before`: what of the knowledge the conversation's snapshot has had, which is not looked up again then.
    Over the budget (the setting system_max_tokens) preferences are cut first, then hubs; base instructions,
    personality and the explanation of the tail never. Raises StoreError when the knowledge cannot be read.
    """
    if before is None:
        before = look_around(config, knowledge if memory else None, memory=memory and not one_shot)
    blocks = before.blocks and memory
    who = "" if instructions else personality(config.personality)
    about = ONE_SHOT_EXPLANATION if one_shot else ""

    def render(snapshot: str = "", said: str = "") -> SystemPrompt:
        return render_system(
            instructions or config.system_prompt,
            memory=memory and not one_shot,
            blocks=blocks,
            personality=who,
            tools=about,
            snapshot=snapshot,
            summary=said,
        )

    base = render().text
    budget = config.system_max_tokens or window_tokens // _SYSTEM_SHARE
    background, hubs = _background(before.hubs, lambda text: count(f"{base}\n\n{text}") <= budget)
    above = f"{base}\n\n{background}" if background else base
    wanted = Preferences() if instructions else _preferences(config)
    wishes = preferences_block(wanted, lambda text: count(f"{above}\n\n{text}") <= budget)
    system = render("\n\n".join(filter(None, (wishes, background))), summary.text)
    return Snapshot(system, who, wishes, background, hubs, summary, blocks)


def look_around(config: Config, knowledge: Knowledge | None, *, memory: bool) -> Before:
    """What of the knowledge a system part that is made now would have. Raises StoreError.

    `memory`: whether tails are to be explained.
    """
    return Before(tuple(_hubs(config, knowledge)), memory and _shows_blocks(config, knowledge))


def changed_since(snapshot: Snapshot, hubs: Sequence[Hub], told: Sequence[Hub]) -> list[Hub]:
    """The hubs that are new or have another title than in the snapshot, or than they were told since."""
    titles = {hub.id: hub.title for hub in (*snapshot.hubs, *told)}
    return [hub for hub in hubs if titles.get(hub.id) != hub.title]


def _shows_blocks(config: Config, knowledge: Knowledge | None) -> bool:
    """Whether the tail may hold more than memory: a user without knowledge is spared the explanation."""
    if config.context_entities is True:
        return True
    return knowledge is not None and config.knowledge_injection and knowledge.latest_change() is not None


def _hubs(config: Config, knowledge: Knowledge | None) -> Sequence[Hub]:
    if knowledge is None or not config.auto_context_enabled or not role_of(config.role).has_background:
        return ()
    return knowledge.hubs(config.auto_context_limit)


def _background(hubs: tuple[Hub, ...], fits: Callable[[str], bool]) -> tuple[str, tuple[Hub, ...]]:
    while hubs:
        block = background_block(hubs)
        if fits(block):
            return block, hubs
        hubs = hubs[:-1]
    return "", ()


def _preferences(config: Config) -> Preferences:
    return Preferences.of(
        style=config.answer_style,
        verbosity=config.answer_verbosity,
        level=config.answer_level,
        formatting=config.answer_formatting,
        lines=config.answer_instructions,
    )
