"""Imports point downwards only, two rooms of one floor do not know each other, and lazy things stay lazy."""

from __future__ import annotations

import ast
import gc
from dataclasses import dataclass
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
    {"chat_session", "setting_checks"},
    {"aio"},
    {"assistant"},
    {"factory", "memory_factory"},
    {"model_files"},
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
        "given_names",
        "http_endpoint",
        "installation",
        "kept_files",
        "lru_cache",
        "overwriting",
        "pattern_index",
        "replies",
        "secret_detection",
        "sentences",
        "sequences",
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


def imports_of(nodes: list[ast.AST]) -> list[tuple[int, str]]:
    found = []
    for node in nodes:
        if isinstance(node, ast.Import):
            found += [(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            found.append((node.lineno, node.module or ""))
            found += [(node.lineno, f"{node.module}.{alias.name}") for alias in node.names]
    return found


@dataclass
class Module:
    """A parsed module: its path below the package, its nodes, and what it imports, by line."""

    path: str
    tree: ast.Module
    nodes: list[ast.AST]
    imports: list[tuple[int, str]]

    @property
    def room(self) -> str:
        return self.path.partition("/")[0].removesuffix(".py")

    @property
    def imported(self) -> set[str]:
        return {name for _, name in self.imports}


@pytest.fixture(scope="module")
def modules() -> list[Module]:
    """All modules, parsed once. Each test looks at all of them and lists what is wrong."""
    # The garbage collector would pass over a growing million of nodes: two thirds of the time.
    gc.disable()
    try:
        return [parsed(path) for path in MODULES]
    finally:
        gc.enable()


def parsed(path: Path) -> Module:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    nodes = list(ast.walk(tree))
    return Module(path.relative_to(SOURCE).as_posix(), tree, nodes, imports_of(nodes))


def test_every_room_has_its_floor(modules):
    assert {module.room for module in modules} <= LEVEL.keys() | {"__init__"}


def points_down(room: str, name: str) -> bool:
    parts = name.split(".")
    if room == "__init__" or parts[0] != "shepherd" or len(parts) < 2 or parts[1] not in LEVEL:
        return True
    other = parts[1]
    both_ground = {room, other} <= GROUND
    return other == room or both_ground or LEVEL[other] < LEVEL[room]


def test_imports_point_downwards(modules):
    wrong = [
        f"{module.path}:{line} imports {name}"
        for module in modules
        for line, name in module.imports
        if not points_down(module.room, name)
    ]

    assert wrong == []


def test_only_the_engine_room_imports_llama_cpp(modules):
    importing = {
        module.path for module in modules if "llama_cpp" in {name.split(".")[0] for name in module.imported}
    }

    assert [path for path in sorted(importing) if not path.startswith("inference/")] == []


# The peer of `shepherd bench`, which runs in a process of its own.
STDLIB_PEER = "shepherd.benchmark.stdlib_peer"


def test_nothing_opens_a_database_through_the_second_sqlite(modules):
    # POSIX locks belong to the process: a second copy of SQLite on one file loses committed rows.
    opening = [
        module.path for module in modules if "sqlite3" in {name.split(".")[0] for name in module.imported}
    ]

    assert opening == ["benchmark/stdlib_peer.py"]
    assert [module.path for module in modules if STDLIB_PEER in module.imported] == []


def defined_in(module: Module) -> set[str]:
    defined = {
        alias.asname or alias.name
        for node in module.nodes
        if isinstance(node, (ast.ImportFrom, ast.Import))
        for alias in node.names
    }
    for node in module.tree.body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef, ast.AsyncFunctionDef)):
            defined.add(node.name)
        elif isinstance(node, ast.Assign):
            defined |= {target.id for target in node.targets if isinstance(target, ast.Name)}
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            defined.add(node.target.id)
    return defined


def test_public_names_are_listed_and_exist(modules):
    missing, starred = {}, []
    for module in modules:
        listed = [
            ast.literal_eval(node.value)
            for node in module.tree.body
            if isinstance(node, ast.Assign)
            and any(isinstance(t, ast.Name) and t.id == "__all__" for t in node.targets)
        ]
        if not listed:
            continue
        if names := set(listed[0]) - defined_in(module):
            missing[module.path] = names
        if any(isinstance(node, ast.ImportFrom) and node.names[0].name == "*" for node in module.nodes):
            starred.append(module.path)

    assert missing == {}
    assert starred == []


# Besides the turn: jobs of the background, and `shepherd provider test`.
GENERATE = {
    "turn/turn.py",
    "prompt/summary.py",
    "entities/extractor.py",
    "extraction/local.py",
    "cli/provider.py",
}
# Besides the turn: LangChain's own interface for a chat's history, and the memory's methods for asyncio.
STORE_MESSAGES = {"turn/recorder.py", "adapters/langchain.py", "aio.py"}


def using(modules: list[Module], name: str, room: str) -> set[str]:
    """The modules outside a room that use an attribute of this name."""
    return {
        module.path
        for module in modules
        if module.room != room
        and any(isinstance(node, ast.Attribute) and node.attr == name for node in module.nodes)
    }


def test_only_the_turn_asks_a_model_and_stores_messages(modules):
    assert using(modules, "generate", "inference") - GENERATE == set()
    storing = using(modules, "append_message", "memory") | using(modules, "append_messages", "memory")
    assert storing - STORE_MESSAGES == set()


def test_hints_of_what_every_face_uses_name_no_slash_command(modules):
    faces = {"cli", "tui", "commands", "server"}  # the session server has POST /clear
    texts = [
        (module.path, node.value)
        for module in modules
        if module.room not in faces
        for node in module.nodes
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]

    assert [(path, text) for path, text in texts if "/clear" in text] == []
