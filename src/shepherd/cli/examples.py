"""Examples for the help of every command; a test parses each of them with the command's parser."""

from __future__ import annotations

__all__ = ["examples_of"]

# By the name of the parser: command lines, or pairs of a command line and an explanation.
_EXAMPLES: dict[str, tuple[str | tuple[str, str], ...]] = {
    "shepherd chat": (
        ("shepherd chat --continue", "continue the last conversation"),
        ("shepherd chat --continue 3fa1b2c4", "continue this one (shepherd conversations list)"),
        ("shepherd chat -m hf:user/repo:Q4_K_M", "with this model, downloaded once"),
        ('shepherd chat -e "what is my dog called?"', "print one answer"),
        ('git diff | shepherd chat -e "review this"', "ask about text from a pipe"),
        ('shepherd chat -a lease.pdf "when does it end?"', "attach a document"),
        ("git diff | shepherd chat -t review --param language Go", "fill in a template"),
        ("shepherd chat --nomemory --temperature 0", "without memory, always the likeliest token"),
    ),
    "shepherd conversations": (
        ("shepherd conversations list", "the latest first, with their ids"),
        ("shepherd --continue 3fa1b2c4", "continue one of them"),
    ),
    "shepherd conversations list": ("shepherd conversations list --limit 10",),
    "shepherd conversations show": (
        ("shepherd conversations show 3fa1b2c4", "by its id"),
        ('shepherd conversations show "trip to Lisbon" > trip.md', "by words of its title, to a file"),
    ),
    "shepherd conversations search": ("shepherd conversations search tomatoes",),
    "shepherd conversations rename": (
        ('shepherd conversations rename 3fa1b2c4 "Trip to Lisbon"', "give it a title"),
        ('shepherd conversations rename 3fa1b2c4 ""', "use the beginning of its first message again"),
    ),
    "shepherd conversations delete": (
        ("shepherd conversations delete 3fa1b2c4 91d0c7e2", "these two"),
        ('shepherd conversations delete "Trip to Lisbon"', "by its title"),
    ),
    "shepherd memory": (
        ("shepherd memory search vim", "search, and see what a message would recall"),
        ("shepherd memory export mine.jsonl", "export memories, facts and their history"),
    ),
    "shepherd memory list": (
        ("shepherd memory list --limit 10", "the ten newest"),
        ("shepherd memory list --json | jq .[].question", "only their questions"),
    ),
    "shepherd memory search": (
        ("shepherd memory search which editor", "best first, and which of them a message would recall"),
        ("shepherd memory search --threshold 0.3 editor", "only those of at least this relevance"),
    ),
    "shepherd memory show": ("shepherd memory show 7",),
    "shepherd memory learned": (
        ("shepherd memory learned", "each sentence and what was learned from it"),
        ("shepherd memory learned --waiting", "proposals that wait for you"),
        ("shepherd memory learned --undo 12", "restore what was known before"),
        ("shepherd memory learned --accept", "accept the newest proposal"),
    ),
    "shepherd memory add": ('shepherd memory add "Which IDE do I use?" "VS Code with vim keybindings"',),
    "shepherd memory edit": ('shepherd memory edit 7 --answer "Helix"',),
    "shepherd memory pin": (
        ("shepherd memory pin 7", "keep it, even if space runs out"),
        ("shepherd memory pin --off 7", "unpin it"),
    ),
    "shepherd memory forget": (
        ("shepherd memory forget 7 8", "these two"),
        ('shepherd memory forget --question "Which IDE do I use?"', "all with this question"),
    ),
    "shepherd memory export": (
        ("shepherd memory export mine.jsonl", "to a new file"),
        ("shepherd memory export | gzip > mine.jsonl.gz", "through a pipe"),
    ),
    "shepherd memory import": (
        ("shepherd memory import chatgpt.zip", "detect the format"),
        ("shepherd memory import --format mem0 memories.json", "name the format"),
    ),
    "shepherd memory restore": ("shepherd memory restore memory-2026-11-01.db",),
    "shepherd memory claim": (
        ("shepherd memory claim --from local", "memories that the library stored without a user"),
    ),
    "shepherd memory stats": ("shepherd memory stats --json",),
    "shepherd memory check": (
        ("shepherd memory check", "look for damage"),
        ("shepherd memory check --repair", "repair it where possible"),
    ),
    "shepherd memory backup": ('shepherd memory backup "memory-$(date +%F).db"',),
    "shepherd memory audit": (
        "shepherd memory audit",
        ("shepherd memory audit --canary Zanzibar", "find where a word is still stored"),
    ),
    "shepherd memory jobs": (
        ("shepherd memory jobs", "waiting and failed jobs"),
        ("shepherd memory jobs --retry", "retry failed jobs"),
    ),
    "shepherd facts": (
        ("shepherd facts set name Steve", "set a fact"),
        ("shepherd facts list", "list all facts"),
    ),
    "shepherd facts list": ("shepherd facts list --json",),
    "shepherd facts get": ("shepherd facts get name",),
    "shepherd facts set": ("shepherd facts set favorite_color 'deep blue'",),
    "shepherd facts clear": (
        "shepherd facts clear name",
        ("shepherd facts clear name --history", "and its earlier values"),
    ),
    "shepherd facts at": (
        ("shepherd facts at 2026-03-01", "at the end of that day"),
        ("shepherd facts at 2026-03-01 14:30", "at that moment"),
    ),
    "shepherd facts history": (
        ("shepherd facts history name", "show its values and when each was true"),
        ("shepherd facts history", "the same for all facts, with those that were forgotten"),
    ),
    "shepherd template": (
        ("shepherd template edit review", "make a template, or change it"),
        ('shepherd -t review -e "x = 1"', "use it"),
    ),
    "shepherd template list": ("shepherd template list",),
    "shepherd template show": ("shepherd template show review",),
    "shepherd template edit": ("EDITOR=nano shepherd template edit review",),
    "shepherd fragment": (
        ("shepherd fragment edit style", "save a text, or change it"),
        ('shepherd -f style -e "write to my landlord"', "attach it"),
    ),
    "shepherd fragment list": ("shepherd fragment list",),
    "shepherd fragment show": ("shepherd fragment show style",),
    "shepherd fragment edit": ("EDITOR=nano shepherd fragment edit style",),
    "shepherd knowledge": (
        ("shepherd knowledge import notes/", "import a folder of documents"),
        ("shepherd knowledge search retrieval", "find matching passages"),
    ),
    "shepherd knowledge list": ("shepherd knowledge list --limit 10",),
    "shepherd knowledge show": ("shepherd knowledge show 3",),
    "shepherd knowledge search": ("shepherd knowledge search how does retrieval work",),
    "shepherd knowledge hubs": ("shepherd knowledge hubs",),
    "shepherd knowledge dimensions": ("shepherd knowledge dimensions --json",),
    "shepherd knowledge add": (
        'shepherd knowledge add "How RAG works" --kind paper --dimension reading',
        'pandoc paper.docx -t plain | shepherd knowledge add "A paper" --text -',
    ),
    "shepherd knowledge edit": ('shepherd knowledge edit 3 --description "How retrieval works"',),
    "shepherd knowledge forget": ("shepherd knowledge forget 3 4",),
    "shepherd knowledge link": ('shepherd knowledge link 3 4 "builds on it"',),
    "shepherd knowledge unlink": ("shepherd knowledge unlink 7",),
    "shepherd knowledge focus": (
        ("shepherd knowledge focus 3 4", "include them in messages"),
        ("shepherd knowledge focus", "nodes in focus"),
    ),
    "shepherd knowledge import": ("shepherd knowledge import notes/ paper.pdf",),
    "shepherd knowledge export": ("shepherd knowledge export graph.jsonl",),
    "shepherd context": (('shepherd context build "what is my name?"', "show what a model would see"),),
    "shepherd context build": (
        ('shepherd context build "what is my name?"', "with the facts and memories that match"),
        (
            "shepherd context build --continue --max-tokens 2000 hello",
            "with the last conversation, in 2,000 tokens",
        ),
    ),
    "shepherd trace": (
        ("shepherd trace tree last/last", "everything about the latest turn"),
        ("shepherd trace get 'last/*/assembled/total_tokens'", "one value of every turn"),
        ("shepherd trace diff last/3 last/4", "show what changed"),
    ),
    "shepherd trace tree": (
        ("shepherd trace tree", "the sessions"),
        ("shepherd trace tree last/last --depth 1", "the parts of the latest turn"),
    ),
    "shepherd trace get": ("shepherd trace get last/last/budget", "shepherd trace get '*/*/warnings' --json"),
    "shepherd trace diff": ("shepherd trace diff last/3 last/4",),
    "shepherd trace export": (
        ("shepherd trace export turns.metta", "atoms for MeTTa"),
        ("shepherd trace export --path last | gzip > last.gz", "lines of a path and a value"),
    ),
    "shepherd trace import": ("shepherd trace import turns.metta --user anna",),
    "shepherd trace forget": (
        ("shepherd trace forget last/last", "the latest turn"),
        ("shepherd trace forget --all --user anna", "all of her turns"),
    ),
    "shepherd trace metta": (
        ("shepherd trace metta '!(compression-level 0.3)'", "call a predicate"),
        ("shepherd trace metta --path last/last '!(match &self (context $s $t budget $k $v) ($k $v))'", ""),
    ),
    "shepherd model": (
        ("shepherd model pull hf:Qwen/Qwen3-4B-GGUF:Q4_K_M", "download one"),
        ("shepherd model list", "models on this machine"),
    ),
    "shepherd model pull": ("shepherd model pull hf:Qwen/Qwen3-4B-GGUF:Q4_K_M",),
    "shepherd model list": ("shepherd model list --json",),
    "shepherd model show": ("shepherd model show hf:Qwen/Qwen3-4B-GGUF:Q4_K_M",),
    "shepherd model rm": ("shepherd model rm --yes hf:Qwen/Qwen3-4B-GGUF:Q4_K_M",),
    "shepherd provider add": (
        "shepherd provider add claude anthropic --model claude-sonnet-4-5",
        "shepherd provider add home openai --model qwen3 --base-url http://10.0.0.5:8000/v1",
    ),
    "shepherd provider list": ("shepherd provider list",),
    "shepherd provider show": ("shepherd provider show claude",),
    "shepherd provider set": (("shepherd provider set claude memory true", "let it see your memory"),),
    "shepherd provider use": ("shepherd provider use claude",),
    "shepherd provider next": ("shepherd provider next",),
    "shepherd provider remove": ("shepherd provider remove claude",),
    "shepherd provider test": ("shepherd provider test claude",),
    "shepherd apikey": (("shepherd apikey create --owner anna", "a key for anna's memory"),),
    "shepherd apikey create": (
        "shepherd apikey create --owner anna --label laptop",
        ("shepherd apikey create --label phone --link", "a link that opens the page on your phone"),
    ),
    "shepherd apikey list": ("shepherd apikey list --json",),
    "shepherd apikey revoke": ("shepherd apikey revoke 3f9c01ab",),
    "shepherd apikey clear": ("shepherd apikey clear",),
    "shepherd tools": (
        ("shepherd tools", "memory tools of a model"),
        ("shepherd chat --memtools", "with tools, in this conversation"),
    ),
    "shepherd config": (
        ("shepherd config set model ~/model.gguf", "make it the default"),
        ("shepherd config show --explain", "explain every setting"),
    ),
    "shepherd config show": ("shepherd config show --explain",),
    "shepherd config get": ("shepherd config get model",),
    "shepherd config set": ("shepherd config set temperature 0.2",),
    "shepherd config unset": ("shepherd config unset temperature",),
    "shepherd config path": ('$EDITOR "$(shepherd config path)"',),
    "shepherd sync": (
        ("shepherd sync ~/Sync/shepherd", "write changes to the folder, and apply those of other machines"),
        ("shepherd sync", "the same with the folder of the last sync"),
        ("shepherd sync --every 60", "again every minute, until you press Ctrl-C"),
        ("shepherd sync --status", "list the machines, and when each last sent changes"),
    ),
    "shepherd encrypt": (
        ("shepherd encrypt", "with a key in the keyring, or a passphrase without a keyring"),
        ("shepherd encrypt --passphrase", "with a passphrase"),
        ("shepherd encrypt --key-file /run/keys/memory -y", "for a server, where nobody types a passphrase"),
        ("shepherd encrypt --rekey", "give it another key"),
    ),
    "shepherd decrypt": (("shepherd decrypt", "make it a plain database again"),),
    "shepherd demo": (("shepherd demo", "tell it two things, restart it, ask"),),
    "shepherd doctor": (
        ("shepherd doctor", "check that everything is in order"),
        ("shepherd doctor -m model.gguf --json", "with this model, for a bug report"),
    ),
    "shepherd completion": (
        ("shepherd completion bash > ~/.local/share/bash-completion/completions/shepherd", ""),
        ('shepherd completion zsh > "${fpath[1]}/_shepherd"', ""),
        ("shepherd completion fish > ~/.config/fish/completions/shepherd.fish", ""),
    ),
}


def examples_of(prog: str) -> str:
    """Return the examples of a parser for its help; "" when there are none."""
    rows = [(row, "") if isinstance(row, str) else row for row in _EXAMPLES.get(prog, ())]
    if not rows:
        return ""
    width = max((len(line) for line, text in rows if text), default=0)
    shown = [f"  {line:{width}}  {text}".rstrip() for line, text in rows]
    return "\n".join(["examples:", *shown])
