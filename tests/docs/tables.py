"""What is run for each command of the documents: the command itself, unless a table here says else.

test_commands.py runs what needs no installing, installation.py the rest, in an environment made for it.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec

from shepherd.cli.doctor import CUDA_BUILD
from tests.docs.commands import ROOT, Command
from tests.docs.needs import CLUSTER, CONTAINERS, CUDA, CUDA_KIT, CUDA_PIP, Need

__all__ = ["BENCHES", "INSTALLING", "INSTEAD", "NEEDS", "PREPARED", "THE_GATE", "WITHOUT_A_WHEEL", "steps_of"]

# .ci/run runs these for what they are.
THE_GATE = frozenset(["tools/test", ".ci/run"])

_CUDA_RUN = 'CMAKE_ARGS="-DGGML_CUDA=on" tools/run -m model.gguf'
_CUDA_KIT = "tools/gpu/run gpu-kit.tar.xz"
_WHEELS = "python -m cibuildwheel"
_IDENTIFIERS = "python -m cibuildwheel --print-build-identifiers"
_BENCH = ".venv/bin/python -m pytest bench/test_recall.py --benchmark-only -s"
_ALL_BENCHES = ".venv/bin/python -m pytest bench --benchmark-only -s"
_SMALL = "SHEPHERD_BENCH_SMALL=1 "
# All of them, done in small.
BENCHES = _SMALL + _ALL_BENCHES
_CLUSTER = [f"tools/cluster {command} /tmp/cluster" for command in ("start", "status", "kill-leader", "stop")]
# Command, run as it stands on every machine: what it needs to come to another end than its error.
NEEDS: dict[str, Need] = {
    _CUDA_RUN: CUDA,
    CUDA_BUILD: CUDA_PIP,
    _CUDA_KIT: CUDA_KIT,
    _WHEELS: CONTAINERS,
    **dict.fromkeys(_CLUSTER, CLUSTER),
}

# Command: what installation.py runs for it. It makes an environment, installs, or compiles.
INSTALLING = {
    **{
        command: (command,)
        for command in (
            "tools/run -m your-model.gguf",
            "tools/run -m hf:Qwen/Qwen3-4B-GGUF:Q4_K_M",
            "tools/wheel",
            "pip install cibuildwheel",
            "tools/environment.py --extras test bench",
            BENCHES,
            _CUDA_RUN,
            CUDA_BUILD,
            _CUDA_KIT,
            "$EDITOR src/_native/text.pyx",
            "tools/test tests/native/test_text.py -k stop_words",
            # What follows them in their documents needs what they bring.
            "pip install 'shepherd-llm[tui]'",
            "pip install 'shepherd-llm[anthropic]'",
            "pip install 'shepherd-llm[server]'",
            "pip install 'shepherd-llm[server,mcp]'",
            "pip install 'shepherd-llm[metta]'",
        )
    },
    "tools/run": (
        "tools/run",
        ".venv/bin/python -c 'import anthropic, cryptography, fastapi, mcp, openai, textual, uvicorn'",
    ),
    "pip install 'shepherd-llm[langgraph,langchain]'": (
        "pip install 'shepherd-llm[langgraph,langchain]'",
        "python -c 'import shepherd.adapters.langgraph, shepherd.adapters.langchain'",
    ),
    "pip install 'shepherd-llm[postgres]'": (
        "pip install 'shepherd-llm[postgres]'",
        "PSYCOPG_IMPL=c python -c 'import psycopg'",
        # For the blind memory at the end: who has one followed encryption.md, which names this extra.
        "pip install 'shepherd-llm[encryption]'",
    ),
    "pip install 'psycopg[binary]'": (
        "pip install 'psycopg[binary]'",
        "PSYCOPG_IMPL=binary python -c 'import psycopg'",
    ),
    "python tools/gpu/pack.py gpu-kit.tar.xz --wheels 3.12": (
        # The other machine, here, is this one.
        f"python tools/gpu/pack.py gpu-kit.tar.xz --wheels {sys.version_info[0]}.{sys.version_info[1]}",
    ),
    "tools/test --deep tests/prompt": ("tools/test --deep tests/native/test_rank.py -k term_is_the_twins",),
    **{command: (command,) for command in _CLUSTER},
    # It takes a quarter of an hour.
    "tools/test --cluster": ("tools/test --cluster --collect-only",),
    # 1: a fault survived.
    "tools/mutants --since HEAD": ("tools/mutants --count 1 src/shepherd/lru_cache.py || test $? = 1",),
    # In full they take long, and their figures want a machine that does nothing else.
    _ALL_BENCHES: (BENCHES,),
    # BENCHES has run it.
    _BENCH: (_SMALL + _BENCH + " --collect-only",),
    _IDENTIFIERS: (
        _IDENTIFIERS,
        *(
            f"{_IDENTIFIERS} --platform {system} | grep cp314-{name}"
            for system, name in (("linux", "manylinux"), ("macos", "macosx"), ("windows", "win"))
        ),
    ),
    # Of ten wheels one, where it builds: the Pythons differ, the steps do not.
    _WHEELS: ("export CIBW_BUILD_LINUX=cp312-manylinux_*", _WHEELS),
}
# Where there is no wheel of hyperon for this Python or system; tests/metta say so, too.
_METTA = ("shepherd trace metta", "pip install 'shepherd-llm[metta]'")
WITHOUT_A_WHEEL = () if find_spec("hyperon") else _METTA

_CLAUDE = "shepherd provider add claude anthropic --model claude-sonnet-4-5"
_IMPORTED = ("shepherd memory import memory.jsonl",)
_TOLD = ("shepherd memory add Which? Rex", "shepherd facts set name Steve")
_TALK = (
    r"""printf '{"prompt": "My dog is called Rex."}\n%.0s' 1 2 3 4 | shepherd --json --max-tokens 8""",
    r"""printf '{"prompt": "What is my dog called?"}\n' | shepherd --json --continue --max-tokens 8""",
)
# Document: what has been done before it begins.
PREPARED = {
    # The tests' own server: its clients, its socket, its superuser. The clients come last in PATH: psycopg is
    # compiled for the libpq of the first pg_config, and is to load the machine's.
    "docs/how-to/postgresql.md": (
        "export PATH=$PATH:{programs}",
        "export PGHOST={pghost}",
        "export PGUSER=postgres",
        "export PGPASSWORD=s3cret",
        "shepherd facts set name Steve",
        "shepherd knowledge import notes/",
    ),
    "docs/explanation/learning.md": ("shepherd facts set location Texas",),
    "docs/how-to/encryption.md": _TOLD,
    "docs/how-to/memory.md": ("cp memory.jsonl FILE",),
    "docs/how-to/sync.md": (
        "echo four random words here > sync-passphrase",
        "mkdir -p $HOME/Sync/shepherd",
        *(f"env XDG_DATA_HOME=$HOME/other {command}" for command in _TOLD),
        "env XDG_DATA_HOME=$HOME/other shepherd sync ~/Sync/shepherd --key-file sync-passphrase --yes",
    ),
    "docs/reference/commands.md": (
        "echo four random words here > sync-passphrase",
        "mkdir -p $HOME/Sync/shepherd",
    ),
    "docs/how-to/migration.md": _TOLD,
    "docs/how-to/server.md": ("export ANTHROPIC_API_KEY=sk-ant-1234567890", _CLAUDE),
    "docs/how-to/messages.md": (
        "echo 'Use short words.' > style.md",
        r"printf -- '---\nlanguage: German\n---\nTranslate into $language: $input\n' > translate.md",
    ),
    "docs/reference/trace.md": _TALK,
}
_NEWEST = "$(shepherd memory list | head -n 1 | cut -f 1)"
_LATEST = "$(shepherd conversations list --all | head -n 1 | cut -f 1)"
_MANY_MEMORIES = (
    *_TOLD,
    "shepherd memory list",
    f"shepherd memory show {_NEWEST}",
    f"shepherd memory edit {_NEWEST} --answer Bella",
    f"shepherd memory pin {_NEWEST}",
    "shepherd memory export out-again.jsonl",
    "shepherd memory stats",
    "shepherd memory jobs",
    "shepherd memory check",
    "shepherd memory backup copy.db",
    "shepherd memory restore copy.db --yes",
    "shepherd memory audit",
    "shepherd memory claim",
    f"shepherd memory forget {_NEWEST}",
)
_WITH_KEY = (
    "SHEPHERD_API_KEY=$(shepherd apikey create --owner steve)"
    " shepherd --backend cli --api-base http://127.0.0.1:8000"
)
_SERVICE = (
    "sudo -u shepherd env XDG_DATA_HOME=/var/lib/shepherd XDG_CONFIG_HOME=/var/lib/shepherd"
    " /opt/shepherd/bin/shepherd "
)
_AS_SERVICE = "env XDG_DATA_HOME=$HOME/service XDG_CONFIG_HOME=$HOME/service shepherd "
_TYPES_A_PASSPHRASE = (
    "python -c \"import pexpect; child = pexpect.spawn('shepherd encrypt --passphrase');"
    " [(child.expect(asked), child.sendline('correct horse battery')) for asked in ('New pass', 'Repeat')];"
    ' child.expect(pexpect.EOF); child.close(); exit(child.exitstatus)"'
)
_BLIND_DUMP = (
    "pg_dump --format=custom --schema=blind --exclude-table-data=blind.user_keys --file=memory.dump memory"
)
_KEYS_DUMP = "pg_dump --format=custom --table=blind.user_keys --data-only --file=memory.keys memory"
_BLIND = {
    database: "env SHEPHERD_MEMORY_BLIND=true SHEPHERD_MEMORY_KEY_FILE=$PWD/blind-key"
    f" SHEPHERD_MEMORY_DATABASE='postgresql:///{database}?schema=blind' shepherd "
    for database in ("memory", "restored")
}
# Command: what is run in its place, where it shows several at once, names something of the reader's, or takes
# minutes. `{postgres}`, `{pghost}` and `{upstream}` are the tests' servers.
INSTEAD = {
    # Without a terminal, and where there may be no keyring.
    "shepherd encrypt": ("shepherd encrypt --key-file first-key -y",),
    "shepherd decrypt": ("shepherd decrypt -y",),
    "shepherd encrypt --passphrase": (
        _TYPES_A_PASSPHRASE,
        "SHEPHERD_MEMORY_KEY_COMMAND='echo correct horse battery' shepherd decrypt -y",
    ),
    "shepherd encrypt --keyring": (
        "shepherd encrypt --keyring -y 2>&1 | grep keyring",
        "shepherd decrypt -y",
    ),
    "shepherd encrypt --key-file FILE": ("shepherd encrypt --key-file second-key -y",),
    'shepherd config set memory_key_command "pass show shepherd"': (
        "mv second-key third-key",
        'shepherd config set memory_key_command "cat third-key"',
        "shepherd memory list | grep Rex",
        "shepherd config unset memory_key_command",
    ),
    "shepherd config set memory_key_file /run/credentials/shepherd.service/key": (
        "shepherd config set memory_key_file third-key",
        "shepherd memory list | grep Rex",
    ),
    "shepherd encrypt --rekey": (
        "shepherd encrypt --rekey --key-file fourth-key -y",
        "shepherd memory list | grep Rex",
    ),
    # Those of the server: an older pg_dump refuses it.
    _BLIND_DUMP: (
        "python -c \"print('ab' * 32)\" > blind-key",
        _BLIND["memory"] + "memory add Which? Rex",
        "{programs}/" + _BLIND_DUMP,
    ),
    _KEYS_DUMP: ("{programs}/" + _KEYS_DUMP,),
    "pg_restore --dbname=restored memory.dump": ("{programs}/pg_restore --dbname=restored memory.dump",),
    "pg_restore --dbname=restored memory.keys": (
        "{programs}/pg_restore --dbname=restored memory.keys",
        _BLIND["restored"] + "memory check",
        _BLIND["restored"] + "memory list | grep Rex",
    ),
    "shepherd memory export memory.enc --encrypt": (
        "echo four random words here > export-passphrase",
        "shepherd memory export memory.enc --encrypt --key-file export-passphrase",
    ),
    "shepherd memory import memory.enc": ("shepherd memory import memory.enc --key-file export-passphrase",),
    # In a folder that another machine has begun; see PREPARED.
    "shepherd sync ~/Sync/shepherd": ("shepherd sync ~/Sync/shepherd --key-file sync-passphrase --yes",),
    "shepherd sync": ("shepherd sync", "shepherd memory list | grep Rex"),
    "shepherd sync ~/Sync/shepherd --key-file FILE --yes": (
        "shepherd sync --leave --yes",
        "shepherd sync ~/Sync/shepherd --key-file sync-passphrase --yes",
    ),
    'shepherd sync ~/Sync/shepherd --key-command "pass show shepherd-sync" --yes': (
        "shepherd sync --leave --yes",
        'shepherd sync ~/Sync/shepherd --key-command "cat sync-passphrase" --yes',
    ),
    "shepherd sync --every 60": (
        "timeout --signal INT --preserve-status 3 shepherd sync --every 60; test $? = 130",
    ),
    "shepherd sync --remove MACHINE": (
        "shepherd sync --status | grep -v 'this machine' | head -n 1 | cut -f 1 > other-machine",
        "shepherd sync --remove $(cat other-machine) --yes",
    ),
    "shepherd sync --leave": ("shepherd sync --leave --yes",),
    # Another user's folders, here below the reader's home.
    _SERVICE + "apikey create --owner anna": (_AS_SERVICE + "apikey create --owner anna",),
    _SERVICE + "config set server_hosts shepherd.example.org": (
        _AS_SERVICE + "config set server_hosts shepherd.example.org",
        _AS_SERVICE + "config get server_hosts | grep shepherd.example.org",
        _AS_SERVICE + "apikey list | grep anna",
    ),
    "shepherd memory {list,show,edit,pin,forget,export,stats,jobs,check,backup,restore"
    ",audit,claim}": _MANY_MEMORIES,
    "shepherd conversations {list,show,search,rename,delete}": (
        "shepherd conversations list",
        f"shepherd conversations show {_LATEST} | grep dog",
        "shepherd conversations search dog",
        f"shepherd conversations rename {_LATEST} Pets",
        "shepherd conversations delete pets",
    ),
    "shepherd --continue NAME": (f"shepherd --continue {_LATEST} -e 'and now?' --max-tokens 8",),
    "shepherd knowledge {list,show,edit,forget,unlink,hubs,dimensions}": (
        "shepherd knowledge list",
        "shepherd knowledge show 1",
        "shepherd knowledge edit 1 --title Leases",
        "shepherd knowledge unlink 1",
        "shepherd knowledge hubs",
        "shepherd knowledge dimensions",
        "shepherd knowledge forget 3",
    ),
    # An editor that saves a finished template.
    "shepherd template edit translate": ("EDITOR='cp translate.md' shepherd template edit translate",),
    "shepherd template {list,show,edit}": (
        "EDITOR='cp notes/lease.md' shepherd template edit lease",
        "shepherd template list",
        "shepherd template show lease",
    ),
    "shepherd fragment edit style": ("EDITOR='cp style.md' shepherd fragment edit style",),
    "shepherd fragment {list,show,edit}": (
        "EDITOR='cp notes/lease.md' shepherd fragment edit lease",
        "shepherd fragment list",
        "shepherd fragment show lease",
    ),
    "shepherd bench": ("shepherd bench --memories 30",),
    "shepherd bench --database postgresql://shepherd@server/memory": (
        "shepherd bench --memories 30 --database '{postgres}'",
    ),
    "shepherd bench --memories 100000 --users 1": ("shepherd bench --memories 30 --users 1",),
    "shepherd demo": ("shepherd demo --fast",),
    # Without writing into the repository.
    ".venv/bin/python -m bench.headlines": ("python -m bench.headlines --check",),
    _CLAUDE: (_CLAUDE, "shepherd provider set claude base_url {upstream}"),
    'shepherd context build "What do we know about the hills?" --max-tokens 2000 | other-program': (
        'shepherd context build "What do we know about the hills?" --max-tokens 2000 | cat',
    ),
    # A machine of tests may be in no network.
    "shepherd apikey create --link": ("shepherd apikey create --link http://192.168.1.5:8000",),
    "shepherd apikey revoke 3f9c01ab": (
        'shepherd apikey revoke $(shepherd apikey list --json | grep -o \'"id": *"[0-9a-f]*"\' | head -1'
        " | cut -d'\"' -f4)",
    ),
    "shepherd knowledge import ~/notes report.pdf https://example.com/article": (
        "shepherd knowledge import ~/notes report.pdf",
    ),
    'shepherd -m hf:ggml-org/gemma-3-4b-it-GGUF:Q4_K_M -a cat.png "what is it?"': (
        'shepherd -m hf:ggml-org/gemma-3-4b-it-GGUF:Q4_K_M -a cat.png "what is it?" | grep red',
    ),
    'shepherd -m model.gguf --mmproj mmproj.gguf -a cat.png "what is it?"': (
        'shepherd -m sees.gguf --mmproj mmproj-seeing.gguf -a cat.png "what is it?" | grep red',
    ),
    "shepherd knowledge focus 4523 4520": ("shepherd knowledge focus 1 2",),
    "shepherd memory export FILE": ("shepherd memory export exported.jsonl",),
    "shepherd memory forget ID --receipt": (*_TOLD, f"shepherd memory forget {_NEWEST} --receipt"),
    "shepherd facts clear KEY --history --receipt": (
        "shepherd facts set name Steve",
        "shepherd facts clear name --history --receipt",
    ),
    "shepherd conversations delete ID --receipt": (
        "shepherd -e hello --max-tokens 8",
        f"shepherd conversations delete {_LATEST} --receipt",
    ),
    "shepherd knowledge forget ID": (
        "shepherd knowledge import notes/lease.md",
        "shepherd knowledge forget 1",
    ),
    "shepherd memory forget --everything": ("shepherd memory forget --everything --yes",),
    "shepherd memory restore copy.db": ("shepherd memory restore copy.db --yes",),
    "shepherd memory restore copy.db --keys keys.db": (
        "shepherd memory restore copy.db --keys keys.db --yes",
        "shepherd memory list | grep Rex",
    ),
    "shepherd model rm hf:user/repo:Q4_K_M": ("shepherd model rm --yes hf:user/repo:Q4_K_M",),
    "shepherd eval friends.jsonl assistant.jsonl": (
        "cp corpus.jsonl friends.jsonl",
        "cp corpus.jsonl assistant.jsonl",
        "shepherd eval friends.jsonl assistant.jsonl",
    ),
    "shepherd eval export.jsonl --questions mine.jsonl": (
        *_IMPORTED,
        "shepherd memory export export.jsonl",
        "shepherd eval export.jsonl --questions mine.jsonl",
    ),
    "PGOPTIONS=--search_path=shepherd psql -1 -v ON_ERROR_STOP=1 -f docs/how-to/partition.sql"
    " postgresql://shepherd@server/memory": (
        "shepherd config set memory_database 'postgresql://postgres@/postgres?host={pghost}&schema=divided'",
        "shepherd memory add 'What is my dog called?' Rex",
        "PGOPTIONS=--search_path=divided psql -1 -v ON_ERROR_STOP=1"
        f" -f {ROOT}/docs/how-to/partition.sql 'postgresql://postgres@/postgres?host={{pghost}}'",
        "shepherd memory search dog",
    ),
    'shepherd config set memory_database "postgresql://localhost/shepherd"': (
        "shepherd config set memory_database '{postgres}'",
    ),
    "shepherd config set memory_database 'postgresql://shepherd@server/memory?schema=shepherd'": (
        "shepherd config set memory_database 'postgresql://shepherd@/memory?host={pghost}&schema=shepherd'",
        "shepherd memory add 'What is my dog called?' Rex",
    ),
    # In access.md there are keys by then, and the server wants one.
    "shepherd --backend cli --api-base http://127.0.0.1:8000": (_WITH_KEY,),
    "SHEPHERD_API_KEY=shepherd_… shepherd --backend cli --api-base https://my.server": (_WITH_KEY,),
    "export ANTHROPIC_API_KEY=…": ("export ANTHROPIC_API_KEY=sk-ant-1234567890",),
}


def steps_of(commands: list[Command], *, installing: bool) -> list[str]:
    """The lines to run for a document's commands, of which there is one: those that install, too, or not."""
    lines = [*PREPARED.get(commands[0].document, ())]
    for command in commands:
        if command.text in INSTALLING:
            lines += INSTALLING[command.text] if installing else ()
        elif command.text not in THE_GATE:
            lines += INSTEAD.get(command.text, (command.text,))
    return [line for line in lines if not line.startswith(WITHOUT_A_WHEEL)]
