"""Exports come back byte for byte, in both forms; what is not one is refused with the number of its line."""

from __future__ import annotations

import io
import itertools
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shepherd.errors import UsageError
from shepherd.memory import Memory
from shepherd.trace import PREDICATES, Format, Traces, export, import_file, paths_of
from shepherd.trace.paths import encode_segment
from tests.trace.turns import FULL, names, turns, values

_users = map("user{}".format, itertools.count())


@pytest.fixture(scope="module")
def shared_memory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Memory]:
    with Memory(tmp_path_factory.mktemp("traces") / "memory.db") as opened:
        yield opened


def exported(traces: Traces, form: Format, path: str = "/context") -> bytes:
    return "".join(export(traces, path, form=form)).encode()


def imported(traces: Traces, data: bytes) -> int:
    return import_file(traces, io.BufferedReader(io.BytesIO(data)))


@given(
    st.lists(st.tuples(names, turns), max_size=3),
    st.lists(st.tuples(st.lists(names, min_size=1, max_size=3), values), max_size=4),
)
def test_export_import_export_gives_the_same_bytes(shared_memory, written, flat):
    source, by_paths, by_atoms = (Traces(shared_memory.transactions, next(_users)) for _ in range(3))
    for session, turn in written:
        source.write(session, turn)
    source.write("flat", {"/".join(map(encode_segment, path)): value for path, value in flat})

    lines, atoms = exported(source, "paths"), exported(source, "metta")
    imported(by_paths, lines)
    imported(by_atoms, atoms)

    for copy in (by_paths, by_atoms):
        assert exported(copy, "paths") == lines
        assert exported(copy, "metta") == atoms


def test_every_engine_gives_and_takes_the_same_bytes(memory, traces):
    traces.write("s/1", FULL)
    copy = Traces(memory.transactions, "anna")

    data = exported(traces, "metta")

    assert imported(copy, data) == len(traces.below("/context"))
    assert exported(copy, "metta") == data
    assert imported(copy, data) == len(traces.below("/context"))
    assert exported(copy, "paths") == exported(traces, "paths")


def test_lines_are_paths_tabs_and_json(traces):
    traces.write("s", {"a": "x\ty\n", "b": 3, "c": 0.5, "d": True})

    assert exported(traces, "paths").decode() == (
        '/context/s/000000/a\t"x\\ty\\n"\n'
        "/context/s/000000/b\t3\n"
        "/context/s/000000/c\t0.5\n"
        "/context/s/000000/d\ttrue\n"
    )


def test_atoms_follow_the_signatures_of_all_28_predicates(traces):
    traces.write("s", paths_of({"model": 'the "mini"'}))

    text = exported(traces, "metta").decode()

    assert len(PREDICATES) == 28
    for predicate in PREDICATES:
        assert f"\n{predicate.signature}\n" in text
    assert "\n(: compress-content (-> ContextContent Int ContextContent))\n" in text
    assert text.endswith('(context "s" 000000 model "the \\"mini\\"")\n(context "s" 000000 schema 1)\n')


def test_part_of_the_traces_can_be_exported(traces):
    traces.write("s", FULL)
    traces.write("s", FULL)

    assert exported(traces, "paths", "/context/s/000001/budget/total") == (
        b"/context/s/000001/budget/total\t4096\n"
    )


def test_import_leaves_no_more_than_200_turns_of_a_session(traces):
    lines = "".join(f"/context/s/{turn:06d}/model\t1\n" for turn in range(500))

    imported(traces, lines.encode())

    assert traces.children("/context/s") == [f"{turn:06d}" for turn in range(300, 500)]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"/context/s/000000/a 1\n", "line 1: there is no tab"),
        (b"/context/s/000000/a\t" + b"[" * 100_000, "line 1: nested too deeply"),
        (b'/context/s/000000/a\t1\n/context/s/0/a\t"secret"\n', "line 2: not a path of a trace"),
        (b"/context/s/000000/a\t[1]\n", "line 1: the value has to be"),
        (b"/context/s/000000/a\tNaN\n", "line 1: the value has to be"),
        (b"/context/s/000000/a\tsecret\n", "line 1: not UTF-8, or not JSON"),
        (b"/context/s/000000/a\t\xff\n", "line 1: not UTF-8"),
        (b'(context "s" 000000 a)\n', "line 1: "),
        (b'(context "s" 000000 a (b))\n', "line 1: not an expression"),
        (b'(context "s" 000000 a 1) (b)\n', "line 1: not an expression"),
        (b'; x\n(other "s" 000000 a 1)\n', "line 2: not a path of a trace"),
        (b'(context "s" 000000 a "\\q")\n', "line 1: an invalid escape"),
        (b'(context "s" 000000 a 99999999999999999999)\n', "line 1: the number does not fit"),
        (b"{}\n", "line 1: not an expression"),
    ],
)
def test_what_is_no_export_is_refused_with_its_line_and_without_its_text(traces, data, message):
    with pytest.raises(UsageError, match=message) as caught:
        imported(traces, data)

    assert "secret" not in str(caught.value)
    assert caught.value.hint


def test_the_header_has_each_group_of_predicates_once(traces):
    header = exported(traces, "metta").decode().partition("\n; turns\n")[0].split("\n\n")

    title, *groups = header
    assert title.startswith("; Traces of turns: (context SESSION TURN")
    told = [group.strip().splitlines() for group in groups]
    assert [lines[0] for lines in told] == list(dict.fromkeys(f"; {one.group}" for one in PREDICATES))
    for heading, *signatures in told:
        assert signatures == [one.signature for one in PREDICATES if f"; {one.group}" == heading]
