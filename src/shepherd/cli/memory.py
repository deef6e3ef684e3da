"""`shepherd memory`: list, search, correct, forget, export and check what is remembered."""

from __future__ import annotations

import json
import time
from argparse import Namespace
from collections import Counter
from contextlib import nullcontext
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from shepherd.cli import backups
from shepherd.cli.exports import (
    add_export_options,
    add_import_options,
    decrypted,
    export_target,
    remark_of_export,
)
from shepherd.cli.misplaced import refuse_documents
from shepherd.cli.parsing import (
    ID,
    Parser,
    add_action,
    add_actions,
    add_limit,
    add_search,
    agreed,
    finish_actions,
    given_settings,
    loaded_settings,
    stdin_bytes,
)
from shepherd.cli.progress import amount, working
from shepherd.cli.receipts import (
    add_receipt,
    forget_all_typed,
    forget_typed,
    print_receipt,
    receipt_value,
    typed_elsewhere,
    warn_of_left,
)
from shepherd.commands.conversations import still_said
from shepherd.commands.explain import decided_in_words, item_in_words, nothing_to
from shepherd.commands.screen import Screen, age_in_words, counted, day, printable, size
from shepherd.errors import ShepherdError, UsageError
from shepherd.escaping import PIPED
from shepherd.paths import history_file
from shepherd.wording import inflected

if TYPE_CHECKING:
    from shepherd.memory import ExtractionJob, LearnedItem, Memory
    from shepherd.memory.records import ClaimCounts
    from shepherd.types import MemoryRecord

__all__ = ["build_parser", "execute"]


_IDS = "shepherd memory list and shepherd memory search show the ids, in the first column"
_LOCAL = "local"  # memories from before there were users
# Ids of one finding of an audit; --json has all.
_MOST_SHOWN = 10
# Why a user may want to look at the memories of each kind of finding.
_AUDIT = {
    "duplicate": "the same twice: one can go",
    "near-duplicate": "nearly the same: one can go",
    "echo": "the answer only repeats the question",
    "empty": "no word in it can be found",
    "tail": "contains injected text, which would be injected again",
    "secret": "better kept elsewhere; to delete: shepherd facts clear KEY --history"
    " or shepherd knowledge forget ID",
    "never-recalled": "no message has needed these in three months",
}


def build_parser() -> Parser:
    """Build the parser of `shepherd memory`."""
    parser = Parser(
        prog="shepherd memory", description="List and change memories: questions and their answers."
    )
    actions = add_actions(parser)
    _add_reading(actions)
    _add_changing(actions)
    _add_transfer(actions)
    _add_upkeep(actions)
    finish_actions(actions, with_memory=True)
    return parser


def _add_reading(actions: Any) -> None:
    add_limit(add_action(actions, "list", "list memories, newest first"), 50, with_offset=True)
    add_search(actions, "search memories, and see which of them a message would recall")
    show = add_action(actions, "show", "show a memory in full")
    show.add_argument("id", type=ID, metavar="ID", help="id of the memory, as list shows it")
    learned = add_action(
        actions, "learned", "show what was learned from your words; keep, undo, accept or reject it"
    )
    add_limit(learned, 50)
    learned.add_argument(
        "--waiting", action="store_true", help="show only proposals that wait for a decision"
    )
    decisions = learned.add_mutually_exclusive_group()
    decisions.add_argument("--keep", type=ID, metavar="ID", help="confirm what was learned")
    for name, what in (
        ("undo", "restore what was known before (default: the newest)"),
        ("accept", "accept a proposal (default: the newest)"),
        ("reject", "reject a proposal (default: the newest)"),
    ):
        decisions.add_argument(f"--{name}", type=ID, nargs="?", const=0, metavar="ID", help=what)


def _add_changing(actions: Any) -> None:
    add = add_action(actions, "add", "add a memory")
    add.add_argument("question", metavar="QUESTION", help="question that it answers, or what was said")
    add.add_argument("answer", metavar="ANSWER", help="answer to the question")

    edit = add_action(actions, "edit", "change a memory")
    edit.add_argument("id", type=ID, metavar="ID", help="id of the memory, as list shows it")
    edit.add_argument("--question", metavar="TEXT", help="new question")
    edit.add_argument("--answer", metavar="TEXT", help="new answer")

    pin = add_action(actions, "pin", "pin a memory, so that it is never deleted to make space")
    pin.add_argument("id", type=ID, metavar="ID", help="id of the memory, as list shows it")
    pin.add_argument("--off", action="store_true", help="unpin the memory")

    forget = add_action(actions, "forget", "delete memories")
    forget.add_argument(
        "ids", type=ID, nargs="*", metavar="ID", help="ids of the memories, as list shows them"
    )
    forget.add_argument("--question", metavar="TEXT", help="delete all memories of exactly this question")
    forget.add_argument(
        "--everything",
        action="store_true",
        help="delete everything that is stored for the user, including conversations",
    )
    forget.add_argument("-y", "--yes", action="store_true", help="don't ask for confirmation")
    add_receipt(forget)


def _add_transfer(actions: Any) -> None:
    export = add_action(
        actions,
        "export",
        "write all memories, and facts with their history, as JSON lines",
        description="Write all memories, and facts with their history, as JSON lines. The export"
        " doesn't contain conversations, documents or the list of what was learned. To copy everything, use"
        " shepherd memory backup.",
    )
    add_export_options(export)
    importing = add_action(actions, "import", "read an export of Shepherd, ChatGPT, mem0, MCP memory or llm")
    importing.add_argument(
        "file", nargs="?", default="-", metavar="FILE", help="file to read (default: stdin)"
    )
    formats = ("auto", "shepherd", "chatgpt", "mem0", "mcp", "llm")
    importing.add_argument("--format", choices=formats, default="auto", help="file format (default: detect)")
    add_import_options(importing)

    claim = add_action(actions, "claim", "take over what is stored under another user id")
    claim.add_argument(
        "--from", dest="from_user", default=_LOCAL, metavar="USER", help="the other id (default: local)"
    )
    claim.add_argument("-y", "--yes", action="store_true", help="don't ask for confirmation")


def _add_upkeep(actions: Any) -> None:
    add_action(actions, "stats", "show how much is stored")
    check = add_action(actions, "check", "check the database for damage")
    check.add_argument("--repair", action="store_true", help="repair what can be repaired")
    backups.add_actions(actions)
    audit = add_action(actions, "audit", "find duplicate, empty and unused memories, secrets, or a word")
    audit.add_argument(
        "--canary",
        metavar="WORD",
        help="search the files of all users for this word instead (-: read it from stdin)",
    )
    jobs = add_action(actions, "jobs", "list messages that are still to be learned from")
    jobs.add_argument("--retry", type=ID, nargs="*", metavar="ID", help="retry failed jobs (default: all)")
    jobs.add_argument(
        "--drop", type=ID, nargs="*", metavar="ID", help="delete jobs (default: all failed ones)"
    )


def execute(arguments: Namespace, screen: Screen) -> int:
    """Run one action; returns its exit code."""
    from shepherd.memory_factory import open_memory, open_memory_to_read

    if arguments.action == "restore":
        return backups.restore(arguments, screen)
    reads = arguments.action in ("list", "search", "show", "export", "stats", "audit")
    if arguments.action == "backup":
        # Users get their keys.
        reads = arguments.keys is None
    if arguments.action == "check":
        reads = not arguments.repair
    if arguments.action == "jobs":
        reads = arguments.retry is None and arguments.drop is None
    if arguments.action == "learned":
        reads = all(getattr(arguments, name) is None for name in _DECISIONS)
    # Only a search needs the vectors, and warns where they cannot be used.
    options: dict[str, Any] = {"warn": screen.warn} if arguments.action == "search" else {}
    opened = open_memory_to_read if reads else open_memory
    with opened(loaded_settings(arguments).config, **options) as memory:
        return _ACTIONS[arguments.action](memory, arguments, screen) or 0


def _list(memory: Memory, arguments: Namespace, screen: Screen) -> None:
    from shepherd.sequences import with_sequence

    stored = memory.list_memories(limit=arguments.limit, offset=arguments.offset)
    records = [with_sequence(record) for record in stored]
    total = 0 if screen.as_json else memory.count_memories()
    screen.listing(
        records,
        ["id", "when", "question", "answer"],
        [(record.id, day(record.timestamp), record.question, record.answer) for record in records],
        empty="" if total or screen.as_json else _claimable(memory, arguments) or "nothing is remembered yet",
    )
    if arguments.offset + len(records) < total:
        screen.note(f"{len(records)} of {counted(total, 'memory', 'memories')}; --offset shows older ones")


def _claimable(memory: Memory, arguments: Namespace) -> str:
    """Return a hint at memories of another user that can be claimed, "" if there are none.

    Of a server with many users, only ids that this user had before are named.
    """
    from shepherd.config import default_user_id
    from shepherd.memory.ownership import users_with_memories

    if "user_id" in given_settings(arguments):  # a user who was named is the one that was meant
        return ""
    others = memory.transactions.read(users_with_memories)
    others.pop(memory.user_id, None)
    if "://" in loaded_settings(arguments).config.memory_database:
        others = {user: others[user] for user in (_LOCAL, default_user_id()) if user in others}
    else:  # those of the same login were mentioned when the database was opened
        login = default_user_id().partition(":")[2]
        others = {user: n for user, n in others.items() if user.partition(":")[2] != login}
    if not others:
        return ""
    user = _LOCAL if _LOCAL in others else next(iter(others))
    source = "" if user == _LOCAL else f" --from {printable(user)}"
    n = counted(others[user], "memory", "memories")
    it = "it" if others[user] == 1 else "them"
    command = f"shepherd memory claim{source}"
    return f"{memory.user_id} has no memories yet, but {user} has {n}; to take {it} over: {command}"


def _search(memory: Memory, arguments: Namespace, screen: Screen) -> None:
    from shepherd.sequences import sequence_of, with_sequence

    words = " ".join(arguments.query)
    found = memory.search(words, arguments.limit, threshold=arguments.threshold)
    results = [with_sequence(result) for result in found]
    recalled = {sequence_of(result.id) for result in memory.recall(words).results}
    rows = [
        (
            *(r.id, "yes" if r.id in recalled else "no", f"{r.relevance:.2f}", f"{r.score:.2f}"),
            *(day(r.timestamp), r.question, r.answer),
        )
        for r in results
    ]
    headers = ["id", "recalled", "relevance", "score", "when", "question", "answer"]
    values = [{**asdict(result), "recalled": result.id in recalled} for result in results]
    screen.listing(values, headers, rows, empty="no memory matches")
    if not screen.as_json and any(result.id not in recalled for result in results):
        screen.note(
            "recalled: whether a message of these words would get the memory. It gets at most"
            f" {counted(memory.max_results, 'memory', 'memories')} with a relevance of"
            f" {memory.relevance_threshold:.2f} or more, and none that only repeats a fact or another memory"
        )


def _show(memory: Memory, arguments: Namespace, screen: Screen) -> None:
    record = _existing(memory, arguments.id)[1]
    if screen.as_json:
        screen.json(record)
        return
    pinned = ", pinned" if record.pinned else ""
    screen.note(f"memory {record.id}, {day(record.timestamp)}, from {record.source or 'unknown'}{pinned}")
    screen.print(f"{record.question}\n\n{record.answer}")


def _add(memory: Memory, arguments: Namespace, screen: Screen) -> None:
    memory_id = memory.store_memory(arguments.question, arguments.answer)
    if memory_id is None:
        raise UsageError("nothing is kept for this user", hint="--user or the setting 'user_id' names a user")
    from shepherd.sequences import sequence_of

    number = sequence_of(memory_id)
    screen.result({"id": number}, str(number))


def _edit(memory: Memory, arguments: Namespace, screen: Screen) -> None:
    if arguments.question is None and arguments.answer is None:
        raise UsageError("nothing to change", hint="use --question TEXT, --answer TEXT, or both")
    from shepherd.sequences import errors_in_sequences

    memory_id, _ = _existing(memory, arguments.id)
    with errors_in_sequences():
        memory.edit_memory(memory_id, question=arguments.question, answer=arguments.answer)
    _, record = _existing(memory, memory_id)
    screen.result(record, note=f"memory {record.id} is changed")


def _pin(memory: Memory, arguments: Namespace, screen: Screen) -> None:
    memory_id, _ = _existing(memory, arguments.id)
    memory.pin_memory(memory_id, not arguments.off)
    state = "no longer pinned" if arguments.off else "pinned: it is never deleted to make space"
    _, record = _existing(memory, memory_id)
    screen.result(record, note=f"memory {record.id} is {state}")


def _forget(memory: Memory, arguments: Namespace, screen: Screen) -> int:
    from shepherd.memory import Receipt
    from shepherd.sequences import stored_id

    if arguments.everything:
        return _forget_everything(memory, arguments, screen)
    if not arguments.ids and arguments.question is None:
        raise UsageError("nothing to forget", hint="name an ID, --question TEXT, or --everything")
    receipt = Receipt()
    ids = [stored_id(memory.transactions, memory.user_id, number) for number in arguments.ids]
    records = [record for one in ids if (record := memory.get_memory(one)) is not None]
    texts = [record.question or record.answer for record in records] + [arguments.question or ""]
    removed = 0
    if arguments.question is not None:
        removed = memory.clear_memory(arguments.question, receipt=receipt)
    gone = set(memory.delete_memories(ids, receipt=receipt))
    missing = [number for number, one in zip(arguments.ids, ids, strict=True) if one not in gone]
    removed += len(gone)
    if removed:
        forget_typed(texts, receipt, arguments)
    value: dict[str, Any] = {"removed": removed, "missing": missing}
    if arguments.receipt:
        value["receipt"] = receipt_value(receipt, arguments)
    screen.result(value, note=f"{counted(removed, 'memory', 'memories')} forgotten")
    if removed and not screen.as_json:
        if arguments.receipt:
            print_receipt(receipt, arguments, screen)
        if note := still_said(memory, texts):
            screen.note(note)
    warn_of_left(receipt, arguments, screen)
    for number in [] if screen.as_json else missing:
        screen.warn(f"no memory has the id {number}", _IDS)
    return 1 if missing or not removed else 0


def _forget_everything(memory: Memory, arguments: Namespace, screen: Screen) -> int:
    """Delete all that is stored for a user."""
    from shepherd.knowledge import Knowledge
    from shepherd.memory import Receipt
    from shepherd.memory.removal import parts_of

    if arguments.ids or arguments.question is not None:
        raise UsageError("--everything names no memory", hint="drop the ID and --question")
    user = memory.user_id
    users = memory.transactions.read(lambda connection: parts_of(connection, user))
    stats = [memory.stats(one) for one in users]
    n_nodes = sum(Knowledge(memory.transactions, one).count_nodes() for one in users)
    held = _claimed(
        sum(one.memories for one in stats),
        sum(one.facts for one in stats),
        n_nodes,
        sum(one.sessions for one in stats),
    )
    also = f" and {counted(len(users) - 1, 'part')} of it that programs have named" if len(users) > 1 else ""
    question = f"Delete everything that is stored for {user!r}{also}: {held}? This can't be undone."
    if not agreed(question, screen, yes=arguments.yes):
        screen.note("nothing was changed")
        return 1
    receipt = Receipt()
    is_own = "user_id" not in given_settings(arguments)
    is_known = typed_elsewhere(memory, users, arguments) if is_own else None
    with working(screen, "deleting"):
        n_rows = memory.delete_user(receipt=receipt)
    if is_own:  # the history of the prompt is that of the account
        forget_all_typed(receipt, arguments, is_known)
    value: dict[str, Any] = {"user": user, "rows": n_rows}
    if arguments.receipt:
        value["receipt"] = receipt_value(receipt, arguments)
    screen.result(value, note=f"all data of {printable(user)} is deleted: {held}")
    if is_known is not None and history_file().exists():
        screen.note("the prompt's history, which your databases share, keeps its other lines")
    if arguments.receipt and not screen.as_json:
        print_receipt(receipt, arguments, screen)
    warn_of_left(receipt, arguments, screen)
    return 0


def _export(memory: Memory, arguments: Namespace, screen: Screen) -> None:
    from shepherd.memory.importers.shepherd import FORMAT

    count: Counter[str] = Counter()
    shows = nullcontext() if arguments.file == "-" else working(screen, "exporting")
    with export_target(arguments, "memory", screen) as file, shows:
        for entry in memory.export_memories():
            file.write(json.dumps(entry, ensure_ascii=False) + "\n")
            count[entry["type"]] += 1
    if screen.as_json and arguments.file != "-":
        n_entries = count.total() - count[FORMAT]  # the first line says whose it is
        screen.json({"file": arguments.file, "entries": n_entries})
    else:
        n_memories = counted(count["memory"], "memory", "memories")
        n_facts = counted(count["fact"], "fact")
        screen.note(f"{n_memories} and {n_facts} exported{remark_of_export(arguments)}")


def _import(memory: Memory, arguments: Namespace, screen: Screen) -> int:
    from shepherd.memory.importers import IMPORTABLE, NO_EXPORT

    with decrypted(arguments.file, "memory", arguments) as opened:
        if opened is None and arguments.file != "-" and arguments.format == "auto":
            refuse_documents(arguments.file)
        source = opened or (stdin_bytes() if arguments.file == "-" else arguments.file)
        with amount(screen, "importing") as progress:
            counts = memory.import_file(source, format=arguments.format, progress=progress)
    new = [counted(counts.memories, "memory", "memories")] if counts.memories else []
    new += [counted(counts.facts, "fact")] if counts.facts else []
    known = f", {counts.duplicates:,} already stored" if counts.duplicates else ""
    skipped = f", {counts.skipped:,} skipped" if counts.skipped else ""
    screen.result(counts, note=f"{' and '.join(new) or 'nothing'} imported{known}{skipped}")
    if counts.memories and not (counts.facts or screen.as_json):
        screen.note(
            "your chats recall what was imported, and shepherd memory search finds it; it is not among your"
            " conversations, and no facts are learned from it"
        )
    if counts.secrets and not screen.as_json:
        screen.warn(
            inflected(
                counts.secrets,
                "{} [entry was|entries were] not imported, because [it contains|they contain] a secret"
                " such as a password",
            ),
            "memory_extraction_secrets = true imports such entries, too",
        )
    for problem in () if screen.as_json else counts.problems:
        screen.warn(problem, IMPORTABLE if problem == NO_EXPORT else "")
    is_found = counts.memories or counts.facts or counts.duplicates
    if not (is_found or counts.problems or counts.skipped or counts.secrets or screen.as_json):
        name = PIPED if arguments.file == "-" else arguments.file
        screen.warn(f"{name}: there is nothing to import", IMPORTABLE)
    return int(not is_found)


def _claim(memory: Memory, arguments: Namespace, screen: Screen) -> int:
    from shepherd.knowledge import Knowledge

    source = arguments.from_user
    stats, n_nodes = memory.stats(source), Knowledge(memory.transactions, source).count_nodes()
    n_rows = stats.memories + stats.facts + stats.sessions + n_nodes
    question = (
        f"Take over {_claimed(stats.memories, stats.facts, n_nodes, stats.sessions)} of {source!r} as"
        f" {memory.user_id!r}? They can't be told apart from yours afterwards."
    )
    if n_rows and source != memory.user_id and not agreed(question, screen, yes=arguments.yes):
        screen.note("nothing was changed")
        return 1
    with working(screen, "taking over"):
        counts = memory.claim(arguments.from_user)
        n_nodes = Knowledge(memory.transactions, memory.user_id).claim(arguments.from_user)
    screen.result(
        {**asdict(counts), "nodes": n_nodes},
        note=_claim_note(counts, n_nodes, source) if n_rows else f"nothing is stored for {source!r}",
    )
    return 0


def _claim_note(counts: ClaimCounts, n_nodes: int, source: str) -> str:
    had = f"you already had {counted(counts.duplicates, 'memory', 'memories')} with the same text"
    if not counts.memories + counts.facts + n_nodes + counts.sessions:
        return f"nothing new was taken over from {source!r}: {had}"
    taken = _claimed(counts.memories, counts.facts, n_nodes, counts.sessions)
    return f"taken over from {source!r}: {taken}" + (f"; {had}" if counts.duplicates else "")


def _claimed(memories: int, facts: int, nodes: int, sessions: int) -> str:
    return (
        f"{counted(memories, 'memory', 'memories')}, {counted(facts, 'fact')}, {counted(nodes, 'node')}"
        f" and {counted(sessions, 'conversation')}"
    )


def _stats(memory: Memory, arguments: Namespace, screen: Screen) -> None:
    from shepherd.memory_factory import memory_file

    with working(screen, "counting"):
        stats = memory.stats()
    file = memory_file(loaded_settings(arguments).config)
    if file is not None and not file.exists():  # nothing is remembered yet
        stats = replace(stats, path=str(file), file_bytes=0, used_bytes=0)
    if screen.as_json:
        screen.json(stats)
        return
    limit = f" of at most {size(stats.limit_bytes)} (max_db_size)" if stats.limit_bytes else ""
    index = f"{size(stats.hot_saved_bytes)} beside the file" if stats.hot_saved_bytes else "none saved"
    pinned = f"of which {stats.pinned:,} pinned" if stats.pinned else "none of them pinned"
    rows = [
        ("memories", f"{stats.memories:,}, {pinned}"),
        ("facts", f"{stats.facts:,}"),
        ("conversations", f"{stats.sessions:,}"),
        ("oldest memory", day(stats.oldest_timestamp) if stats.memories else "-"),
        ("newest memory", day(stats.newest_timestamp) if stats.memories else "-"),
        ("stored data", f"{size(stats.used_bytes)}{limit}, for all users together"),
        ("database", f"{stats.path} ({size(stats.file_bytes)})"),
        ("encryption", "on" if stats.is_encrypted else "off (shepherd encrypt)"),
        ("search index", index),
    ]
    n_vectors, n_memories = memory.count_vectors()
    if memory.has_vectors:
        rows.append(("vectors", f"for {n_vectors:,} of {counted(n_memories, 'memory', 'memories')}"))
    for name, value in rows:
        screen.print(f"{name:14} {screen.runnable(value)}")


def _check(memory: Memory, arguments: Namespace, screen: Screen) -> int:
    with working(screen, "checking"):
        report = memory.check(repair=arguments.repair)
    if screen.as_json:
        screen.json({"ok": report.ok, "problems": report.problems, "repaired": report.repaired})
        return 0 if report.ok else 1
    for problem in report.problems:
        screen.print(f"{'repaired' if problem in report.repaired else 'problem'}: {problem}")
    if not report.problems:
        screen.note("no damage found")
    elif not report.ok and not arguments.repair:
        screen.note("shepherd memory check --repair repairs what can be repaired")
    return 0 if report.ok else 1


def _audit(memory: Memory, arguments: Namespace, screen: Screen) -> int:
    if arguments.canary is not None:
        from shepherd.cli.canaries import search_everywhere

        return search_everywhere(memory, arguments, screen)
    from shepherd.sequences import sequence_of

    with working(screen, "looking for duplicates"):
        stored = memory.audit()
    findings = [replace(one, ids=tuple(map(sequence_of, one.ids))) for one in stored]
    rows = [
        (f.kind, _first(f.ids), f"{f.detail}: {_AUDIT[f.kind]}" if f.detail else _AUDIT[f.kind])
        for f in findings
    ]
    screen.listing(findings, ["what", "ids", "why it matters"], rows, empty="nothing to clean up")
    return 0


def _first(ids: tuple[int, ...]) -> str:
    shown = " ".join(map(str, ids[:_MOST_SHOWN]))
    return shown if len(ids) <= _MOST_SHOWN else f"{shown} and {len(ids) - _MOST_SHOWN:,} more"


_DECISIONS = ("keep", "undo", "accept", "reject")


def _learned(memory: Memory, arguments: Namespace, screen: Screen) -> None:
    from shepherd.tools import decide

    for action in _DECISIONS:
        if (number := getattr(arguments, action)) is not None:
            item = decide(memory, action, number or None)
            if item is None:
                hint = "shepherd memory learned lists what was learned"
                raise ShepherdError(nothing_to(action, number), hint=hint)
            screen.result(item, note=decided_in_words(item))
            return
    items = memory.learned(arguments.limit, waiting_only=arguments.waiting)
    rows = [(item.id, day(item.at), item.statement, _what(item), item.state) for item in items]
    empty = "nothing waits for a decision" if arguments.waiting else "nothing has been learned yet"
    screen.listing(items, ["id", "when", "you said", "learned", "state"], rows, empty=empty)
    if not screen.as_json and any(item.kind == "proposed" and item.state == "new" for item in items):
        screen.note("--accept ID replaces what you set yourself, --reject ID leaves it")


def _what(item: LearnedItem) -> str:
    return f"proposed: {item_in_words(item)}" if item.kind == "proposed" else item_in_words(item)


def _existing(memory: Memory, number: int) -> tuple[int, MemoryRecord]:
    """Return a memory by its number or id: the id in the database, and the memory as it is shown."""
    from shepherd.sequences import stored_id, with_sequence

    memory_id = stored_id(memory.transactions, memory.user_id, number)
    record = memory.get_memory(memory_id)
    if record is None:
        raise ShepherdError(f"no memory has the id {number}", hint=_IDS)
    return memory_id, with_sequence(record)


def _jobs(memory: Memory, arguments: Namespace, screen: Screen) -> int:
    """List, retry or drop; returns 1 when there was no job of the ids that were named."""
    if arguments.retry is not None and arguments.drop is not None:
        raise UsageError("--retry and --drop contradict each other", hint="give one of them")
    if arguments.retry is not None:
        return _change_jobs(arguments.retry, memory.extraction.retry, "tried again", screen)
    if arguments.drop is not None:
        return _change_jobs(arguments.drop, memory.extraction.drop, "dropped", screen)
    jobs = memory.extraction.jobs()
    # What was said stays in the database: a list of jobs ends up in bug reports.
    values = [
        {key: value for key, value in asdict(job).items() if key not in ("lines", "owner")} for job in jobs
    ]
    headers = ["id", "state", "messages", "said", "tries", "next try", "last failure"]
    screen.listing(values, headers, [_job_row(job) for job in jobs], empty="nothing is waiting")
    if not screen.as_json and any(job.state == "dead" for job in jobs):
        screen.note("--retry tries the failed ones again, --drop deletes them")
    return 0


def _change_jobs(ids: list[int], change: Any, done: str, screen: Screen) -> int:
    changed = sum(change(job_id) for job_id in ids) if ids else change()
    if ids and not changed and not screen.as_json:
        raise ShepherdError("there is no such job", hint="shepherd memory jobs lists them")
    screen.result({"jobs": changed}, note=f"{counted(changed, 'job')} {done}")
    return 0 if changed or not ids else 1


def _job_row(job: ExtractionJob) -> tuple[object, ...]:
    said = age_in_words((time.time() - job.told_at) / 86_400)
    wait_s = max(job.next_try - time.time(), 0)
    due = (f"in {wait_s:.0f} s" if wait_s else "now") if job.state == "waiting" else ""
    return job.id, job.state, len(job.message_ids), said, job.attempts, due, job.error


_ACTIONS = {
    "list": _list,
    "search": _search,
    "show": _show,
    "add": _add,
    "edit": _edit,
    "pin": _pin,
    "forget": _forget,
    "export": _export,
    "import": _import,
    "claim": _claim,
    "stats": _stats,
    "check": _check,
    "backup": backups.back_up,
    "audit": _audit,
    "jobs": _jobs,
    "learned": _learned,
}
