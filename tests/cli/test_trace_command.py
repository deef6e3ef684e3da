"""`shepherd trace`, as processes: what one export gives another user can look at, compare and give away."""

from __future__ import annotations

import io
import json

import pytest

from shepherd.commands.explain import explain_turn
from shepherd.commands.screen import Screen
from tests.cli.conftest import in_latin_1
from tests.metta.test_process import NEEDS_METTA

LINES = """\
/context/s1/000003/budget/total\t4096
/context/s1/000003/model\t"mini"
/context/s1/000003/tail/facts/a%2Fb\t"c\\nd"
/context/s1/000004/budget/total\t4000
/context/s1/000004/model\t"mini"
/context/s1/000004/warnings/0000\t"no vectors"
"""


@pytest.fixture
def traced(shepherd):
    """Two turns of one session."""
    assert shepherd("trace", "import", "-", input=LINES).stderr == "6 paths imported\n"


def test_tree_shows_sessions_turns_and_values(shepherd, traced):
    sessions = shepherd("trace", "tree").stdout
    turns = shepherd("trace", "tree", "s1").stdout
    turn = shepherd("trace", "tree", "s1/last").stdout
    nested = json.loads(shepherd("trace", "tree", "s1/3", "--json").stdout)

    assert sessions == "s1\t2\t3\t4\n"
    assert turns == "000003\n000004\n"
    assert turn == 'budget\n  total = 4000\nmodel = "mini"\nwarnings\n  0000 = "no vectors"\n'
    assert nested == {"budget": {"total": 4096}, "model": "mini", "tail": {"facts": {"a%2Fb": "c\nd"}}}


def test_get_takes_paths_and_patterns(shepherd, traced):
    one = shepherd("trace", "get", "/context/s1/000003/model")
    several = shepherd("trace", "get", "*/*/budget")
    none = shepherd("trace", "get", "s1/9/model")

    assert one.stdout == "mini\n"
    assert several.stdout == (
        "/context/s1/000003/budget/total = 4096\n/context/s1/000004/budget/total = 4000\n"
    )
    assert (none.returncode, none.stderr.splitlines()[0]) == (
        1,
        "warning: there is nothing at /context/s1/000009/model",
    )


def test_diff_shows_what_came_went_and_changed(shepherd, traced):
    shown = shepherd("trace", "diff", "s1/3", "s1/4")

    assert shown.stdout == (
        "- budget/total = 4096\n"
        "+ budget/total = 4000\n"
        '- tail/facts/a%2Fb = "c\\nd"\n'
        '+ warnings/0000 = "no vectors"\n'
    )
    assert shown.stderr == "3 differences\n"


def test_exports_are_read_back_byte_for_byte_by_anybody(shepherd, traced, tmp_path):
    atoms = tmp_path / "turns.metta"

    assert shepherd("trace", "export").stdout == LINES
    assert shepherd("trace", "export", str(atoms)).stderr == "6 paths exported\n"
    assert '(context "s1" 000003 tail facts "a/b" "c\\nd")\n' in atoms.read_text()
    shepherd("trace", "import", str(atoms), "--user", "anna")
    assert shepherd("trace", "export", "--format", "metta", "--user", "anna").stdout == atoms.read_text()


def test_an_export_is_utf_8_in_any_locale(shepherd, traced):
    said = '/context/a1b2/000009/model\t"Modèle 日本"\n'
    shepherd("trace", "import", "-", input=said)

    exported = shepherd("trace", "export", "--path", "a1b2/9", **in_latin_1())

    assert exported.stdout == said


@pytest.mark.parametrize("action", ["tree", "get", "export --path"])
def test_a_path_that_is_not_utf_8_is_one_that_is_not_there(shepherd, traced, action):
    done = shepherd("trace", *action.split(), b"caf\xe9/1")

    assert done.stdout == ""
    assert "bug" not in done.stderr


def test_mistakes_are_said_in_one_line(shepherd, traced):
    pattern = shepherd("trace", "tree", "*/3")
    broken = shepherd("trace", "import", "-", input="/context/s1/3\n")

    assert (pattern.returncode, pattern.stderr.count("\n")) == (2, 2)
    for action in (("diff", "s1/3", "*/4"), ("export", "--path", "*/3"), ("forget", "*/3")):
        assert f"{action[0]} takes one path, without `*`" in shepherd("trace", *action).stderr
    assert (broken.returncode, "line 1: there is no tab in it" in broken.stderr) == (2, True)


def test_why_adds_what_is_kept_about_the_turn():
    out = io.StringIO()
    entries = {
        "budget/total": 4096,
        "assembled/total_tokens": 416,
        "entities/count": 1,
        "entities/0000/name": "Ann",
        "entities/0000/type": "person",
        "entities/0000/relevance": 0.7,
        "entities/0000/tokens": 9,
        "rag/chunks_selected": 1,
        "rag/chunks/0000/doc_title": "Notes",
        "rag/chunks/0000/relevance": 0.834,
        "rag/chunks/0000/tokens": 250,
        "history/compression_level": "light",
        "warnings/0000": "no vectors",
    }

    explain_turn(Screen(out, out), "s1", 3, entries)

    assert out.getvalue().splitlines() == [
        "the whole prompt: 416 of 4,096 tokens",
        "  entity   Ann (person), relevance 0.70, 9 tokens",
        "  passage  Notes, relevance 0.83, 250 tokens",
        "  history  compressed, light",
        "  warning  no vectors",
        "all of it: shepherd trace tree s1/3",
    ]


@NEEDS_METTA
def test_metta_sees_the_atoms_of_a_path_and_calls_predicates(shepherd, traced):
    matched = shepherd(
        "trace", "metta", "--path", "s1", "!(match &self (context $s $t budget total $n) ($t (+ $n 1)))"
    )
    called = shepherd("trace", "metta", "!(compression-level 0.5)", "--json")
    broken = shepherd("trace", "metta", "!(a")

    assert sorted(matched.stdout.splitlines()) == ["(3 4097)", "(4 4001)"]
    assert json.loads(called.stdout) == [["heavy"]]
    assert (broken.returncode, "MeTTa cannot read the expression" in broken.stderr) == (1, True)


@NEEDS_METTA
def test_path_without_atoms_is_a_failure(shepherd, traced):
    done = shepherd("trace", "metta", "--path", "s1/77", "!(+ 1 1)")

    assert (done.returncode, done.stdout) == (1, "")
    assert "there is nothing at /context/s1/000077" in done.stderr


@NEEDS_METTA
def test_metta_has_the_models_of_the_settings(shepherd, model):
    turns = '((Turn (content "Bees fly.")) (Turn (content "So they do.")))'
    without = shepherd("trace", "metta", '!(embed-query "x")')
    asked = ("trace", "metta", f"!(summarize-turns {turns} 50)")
    summed_up = shepherd(*asked, SHEPHERD_MODEL=str(model), SHEPHERD_HISTORY_SUMMARY="true")
    expert = shepherd("trace", "metta", '!(format-personality (Expert "botany"))')
    odd = shepherd("trace", "metta", '!(format-chunk (Chunk (contnt "hi")) (DocumentSource))')

    assert "there is no embedder here" in without.stdout
    assert summed_up.stdout.startswith('"Hello, I am a shepherd.')
    assert expert.stdout.startswith('"You are an expert in botany.')
    assert "Chunk has no field 'contnt'" in odd.stdout


def test_what_is_known_of_a_turn_of_a_session_or_of_all_is_forgotten(shepherd, traced):
    nothing = shepherd("trace", "forget")
    deeper = shepherd("trace", "forget", "s1/3/budget")
    turn = shepherd("trace", "forget", "s1/3")
    left = shepherd("trace", "tree").stdout
    again = shepherd("trace", "forget", "s1/3")
    session = shepherd("trace", "forget", "s1", "--json")
    shepherd("trace", "import", "-", input=LINES)
    everything = shepherd("trace", "forget", "--all")

    assert (nothing.returncode, deeper.returncode) == (2, 2)
    assert turn.stderr == "3 paths forgotten\n"
    assert left == "s1\t1\t4\t4\n"
    assert again.returncode == 1
    assert json.loads(session.stdout) == {"paths": 3}
    assert everything.stderr == "6 paths forgotten\n"
    assert shepherd("trace", "tree").stderr == "no traces yet; each turn of a stored conversation makes one\n"
