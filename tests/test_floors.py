"""Imports point downwards only, two rooms of one floor do not know each other, and lazy things stay lazy."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import shepherd

SOURCE = Path(shepherd.__file__).parent

# From the top. A room may import rooms of lower floors, and itself.
FLOORS = [
    {"__main__"},
    {"cli"},
    {"tui"},
    {"mcp", "metta", "adapters"},
    {"server"},
    {"commands"},
    {"chat_session"},
    {"factory"},
    {"aio"},
    {"assistant"},
    {"turn"},
    {"tools", "trace"},
    {"prompt", "extraction", "evaluation", "benchmark"},
    {"entities", "sync"},
    {"memory", "knowledge", "inference", "providers"},
    {
        "errors",
        "types",
        "paths",
        "pictures",
        "canary",
        "claims",
        "config",
        "encryption",
        "escaping",
        "fusion",
        "http_endpoint",
        "installation",
        "kept_files",
        "lru_cache",
        "pattern_index",
        "replies",
        "secret_detection",
        "sentences",
        "sqlite_reader",
        "stored_files",
        "subprocess_sandbox",
        "system_keyring",
        "threads",
        "tool_arguments",
        "transactions",
        "wording",
    },
    {"_native"},
]
LEVEL = {room: len(FLOORS) - level for level, rooms in enumerate(FLOORS) for room in rooms}
# The ground floor's records and errors know each other.
GROUND = FLOORS[-2]

MODULES = sorted(path for path in SOURCE.rglob("*.py") if "_native" not in path.parts)


def room_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imports_of(tree: ast.AST) -> list[tuple[int, str]]:
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            found.append((node.lineno, node.module or ""))
            found += [(node.lineno, f"{node.module}.{alias.name}") for alias in node.names]
    return found


@pytest.fixture(scope="module", params=MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def path(request: pytest.FixtureRequest) -> Path:
    return request.param


@pytest.fixture(scope="module")
def tree(path: Path) -> ast.Module:
    """The module at `path`, parsed once: pytest runs all tests of a module one after the other."""
    return ast.parse(path.read_text(encoding="utf-8"))


def test_every_room_has_its_floor():
    assert {room_of(path) for path in MODULES} <= LEVEL.keys() | {"__init__"}


def test_imports_point_downwards(path, tree):
    room = room_of(path)
    if room == "__init__":
        return
    for line, name in imports_of(tree):
        parts = name.split(".")
        if parts[0] != "shepherd" or len(parts) < 2 or parts[1] not in LEVEL:
            continue
        other = parts[1]
        both_ground = {room, other} <= GROUND
        assert other == room or both_ground or LEVEL[other] < LEVEL[room], f"{path}:{line} imports {name}"


def test_only_the_engine_room_imports_llama_cpp(path, tree):
    names = {name.split(".")[0] for _, name in imports_of(tree)}

    assert "llama_cpp" not in names or room_of(path) == "inference"


# The peer of `shepherd bench`, which runs in a process of its own.
STDLIB_PEER = "shepherd.benchmark.stdlib_peer"


def test_nothing_opens_a_database_through_the_second_sqlite(path, tree):
    # POSIX locks belong to the process: a second copy of SQLite on one file loses committed rows.
    names = {name for _, name in imports_of(tree)}

    if path != SOURCE.joinpath(*STDLIB_PEER.split(".")[1:]).with_suffix(".py"):
        assert "sqlite3" not in {name.split(".")[0] for name in names}
    assert STDLIB_PEER not in names


def test_public_names_are_listed_and_exist(path, tree):
    listed = [
        ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign)
        and any(isinstance(t, ast.Name) and t.id == "__all__" for t in node.targets)
    ]
    if not listed:
        return
    defined = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, (ast.ImportFrom, ast.Import))
        for alias in node.names
    }
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef, ast.AsyncFunctionDef)):
            defined.add(node.name)
        elif isinstance(node, ast.Assign):
            defined |= {target.id for target in node.targets if isinstance(target, ast.Name)}
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            defined.add(node.target.id)

    assert set(listed[0]) <= defined
    assert not any(isinstance(node, ast.ImportFrom) and node.names[0].name == "*" for node in ast.walk(tree))


def attributes_of(tree: ast.AST) -> set[str]:
    return {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}


# Besides the turn: jobs of the background, and `shepherd provider test`.
GENERATE = {
    "turn/turn.py",
    "prompt/summary.py",
    "entities/extractor.py",
    "extraction/local.py",
    "cli/provider.py",
}
# Besides the turn: LangChain's own interface for a chat's history.
STORE_MESSAGES = {"turn/recorder.py", "adapters/langchain.py"}


def test_only_the_turn_asks_a_model_and_stores_messages(path, tree):
    name, used = path.relative_to(SOURCE).as_posix(), attributes_of(tree)

    assert "generate" not in used or name in GENERATE or room_of(path) == "inference"
    assert "append_message" not in used or name in STORE_MESSAGES or room_of(path) == "memory"


def test_hints_of_what_every_face_uses_name_no_slash_command(path, tree):
    if room_of(path) in {"cli", "tui", "commands", "server"}:  # the session server has POST /clear
        return
    texts = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)]

    assert not [text for text in texts if isinstance(text, str) and "/clear" in text]
