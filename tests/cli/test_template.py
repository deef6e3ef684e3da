"""Templates: files of prompts with placeholders, which messages are put into."""

from __future__ import annotations

import json
import stat
import sys

import pytest

from shepherd.cli.template import Template, filled, fragment_file, read_template, saved_names
from shepherd.errors import UsageError
from tests.cli.test_terminal import TURN_ENDED, terminal

__all__ = ["terminal"]

ANSWER = "Hello, I am a shepherd. Café is open today!"
REVIEW = """\
---
# for any language
system: |
  You review code.

  Be terse.
language: "Python"
---

Review this $language for ${who}, at $5 or $$who:

$input

Answer in one line.
"""


@pytest.fixture
def save(home):
    def write(name: str, text: str):
        path = home.config.parent / "templates" / f"{name}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    return write


def sent(done) -> str:
    return done.stderr.partition("[prompt+context] ")[2].removesuffix("\n")


def test_a_message_is_put_into_a_template(shepherd, model, save):
    save("review", REVIEW)
    options = ("-m", model, "--show-context", "-t", "review", "--param", "who")

    done = shepherd(*options, "Bob & $input", "-e", "x = $language")

    assert (done.returncode, done.stdout) == (0, f"{ANSWER}\n")
    # Neither a value nor the message is a template.
    assert sent(done) == (
        "Review this Python for Bob & $input, at $5 or $who:\n\nx = $language\n\nAnswer in one line."
    )
    other = shepherd(*options, "Bob", "--param", "language", "Rust", input="x\n")
    assert "Review this Rust for Bob" in sent(other)
    assert ":\n\nx\n\nAnswer" in sent(other)


def test_nothing_is_learned_from_a_template_nor_from_what_is_piped_into_it(shepherd, save):
    save("letter", "My name is Mallory and I live in Rome. Answer in one sentence.")

    done = shepherd("-t", "letter", "-e", "My dog is called Rex.", input="I am Trudy. I live in Lyon.")

    assert done.returncode == 0
    known = shepherd("facts", "list").stdout + shepherd("memory", "list").stdout
    assert "Rex" in known
    assert not any(name in known for name in ("Mallory", "Rome", "Trudy", "Lyon"))


def test_nothing_is_learned_from_a_message_that_a_template_makes_material_of(shepherd, save):
    save("translate", "Translate this into German:\n\n$input")

    shepherd("-t", "translate", "-e", "My name is Peter and I live in Kiel.")
    shepherd("-t", "translate", "-e", "The heating is broken.")

    assert shepherd("facts", "list").stdout + shepherd("memory", "list").stdout == ""


def test_without_a_place_for_it_the_message_follows(shepherd, model, save):
    save("short", "Answer in one word.")

    assert (
        sent(shepherd("-m", model, "-t", "short", "why?", "--show-context")) == "Answer in one word.\n\nwhy?"
    )
    # It can be all of the message, too.
    assert sent(shepherd("-m", model, "-t", "short", "--show-context")) == "Answer in one word."


def test_of_several_templates_each_gets_the_result_of_the_one_before(shepherd, model, save):
    save("quoted", "<q>$input</q>")
    save("german", "In German: $input")

    done = shepherd("-m", model, "-t", "quoted", "-t", "german", "hello", "--show-context")

    assert sent(done) == "In German: <q>hello</q>"


def test_a_template_sets_the_system_prompt_and_the_model(shepherd, model, save):
    save("terse", f"---\nsystem: You are terse, $who.\nmodel: {model}\n---\n")
    shepherd("config", "set", "trace_prompts", "true")

    done = shepherd("-t", "terse", "--param", "who", "Ann", "hello")

    assert done.stdout == f"{ANSWER}\n"
    assert "You are terse, Ann." in shepherd("trace", "get", "last/last/assembled/full_prompt").stdout
    shepherd("-t", "terse", "--param", "who", "Ann", "--system", "Be verbose.", "hello")
    prompt = shepherd("trace", "get", "last/last/assembled/full_prompt").stdout
    assert "Be verbose." in prompt
    assert "terse" not in prompt


@pytest.mark.parametrize(
    ("text", "options", "message", "hint"),
    [
        ("Hello $who and $what", (), "the template t needs what, who", "--param what … --param who …"),
        ("Hello $who", ("--param", "woh", "x"), "no template has the parameter 'woh'", "$who"),
        ("---\nlanguge: x\n---\n$language", (), "$languge is nowhere in its text", "system, model, provider"),
        ("---\nsystem You\n---\nHi", (), "line 2 is not a setting", "NAME: VALUE"),
        ("---\nsystem: about $input\n---\nHi", (), "$input cannot be in the system prompt", "in the text"),
        ("---\nsystem:\n---\n\n", (), "the template t is empty", "shepherd template edit t"),
    ],
)
def test_mistakes_are_told_before_a_model_is_loaded(shepherd, save, text, options, message, hint):
    save("t", text)

    done = shepherd("-m", "/nowhere.gguf", "-t", "t", *options, "hello")

    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert hint in done.stderr


def test_an_unknown_template_is_an_error_and_a_path_is_one(shepherd, model, save, home):
    save("review", REVIEW)

    assert "did you mean review?" in shepherd("-m", model, "-t", "reviw", "x").stderr
    assert "cannot be the name" in shepherd("-m", model, "-t", "..", "x").stderr
    assert "--param needs a template" in shepherd("-m", model, "--param", "a", "b", "x").stderr
    (home.path / "own.md").write_text("Say $input")
    assert sent(shepherd("-m", model, "-t", home.path / "own.md", "x", "--show-context")) == "Say x"


def test_templates_are_listed_and_shown(shepherd, save):
    assert "shepherd template edit NAME makes one" in shepherd("template", "list").stderr
    path = save("review", REVIEW)
    save("broken", "---\nx\n---\n")

    done = shepherd("template", "list")

    assert done.stdout.startswith("review\tlanguage, who\tReview this $language")
    assert "the template broken: line 2" in done.stderr
    assert shepherd("template", "show", "review").stdout == path.read_text()
    shown = json.loads(shepherd("template", "show", "review", "--json").stdout)
    assert shown["system"] == "You review code.\n\nBe terse."
    assert shown["parameters"] == {"language": "Python", "who": None}


def editor(home, code: str) -> str:
    """A command that runs this code with the path as `path`."""
    script = home.path / "editor.py"
    script.write_text(f"import pathlib, sys\npath = pathlib.Path(sys.argv[1])\n{code}\n")
    return f"{sys.executable} {script}"


def test_a_new_template_is_made_in_the_editor(shepherd, home):
    command = editor(home, "assert '$input' in path.read_text()\npath.write_text('Say $input')")

    done = shepherd("template", "edit", "say", EDITOR="false", VISUAL=command)

    assert (done.returncode, done.stderr) == (0, "saved; shepherd -t say uses it\n")
    path = home.config.parent / "templates" / "say.md"
    assert path.read_text() == "Say $input"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_path_into_no_folder_makes_neither_folder_nor_template(shepherd, home):
    path = home.path / "reviews" / "say.md"

    done = shepherd(
        "template", "edit", str(path), EDITOR="false", VISUAL=editor(home, "path.write_text('x')")
    )

    assert done.returncode == 2
    assert "there is no folder" in done.stderr
    assert "use a name without /, which is saved with your other templates" in " ".join(done.stderr.split())
    assert not path.parent.exists()


def test_an_editor_that_writes_nothing_or_fails_makes_none(shepherd, home):
    path = home.config.parent / "templates" / "say.md"

    unchanged = shepherd("template", "edit", "say", EDITOR="true")
    failed = shepherd("template", "edit", "say", EDITOR="false")
    missing = shepherd("template", "edit", "say", EDITOR="no-such-editor")

    assert (unchanged.returncode, path.exists()) == (0, False)
    assert "no template was made" in unchanged.stderr
    assert failed.returncode == 2
    assert "the editor false ended with exit code 1" in failed.stderr
    assert "the editor no-such-editor: No such file" in missing.stderr
    path.write_text("Say $input")
    assert shepherd("template", "edit", "say", EDITOR="false").returncode == 2
    assert path.read_text() == "Say $input"


def test_a_mistake_in_an_edited_template_is_told_and_the_text_is_kept(shepherd, home):
    done = shepherd("template", "edit", "say", EDITOR=editor(home, "path.write_text('---\\nx\\n---\\nSay')"))

    assert done.returncode == 2
    assert "line 2 is not a setting" in done.stderr
    assert (home.config.parent / "templates" / "say.md").read_text() == "---\nx\n---\nSay"


def test_in_a_chat_each_message_is_put_into_the_template(terminal, model, save):
    save("german", "In German: $input")
    chat = terminal("-m", model, "-t", "german", "--show-context")

    for text in ("hello", "bye"):
        chat.type(text)
        assert f"[prompt+context] In German: {text}" in chat.expect(TURN_ENDED)
        chat.prompt()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The folder of the configuration of this process."""
    monkeypatch.setenv("SHEPHERD_CONFIG", str(tmp_path / "config.json"))
    return tmp_path


def parsed(folder, text: str) -> Template:
    path = folder / "own.md"
    path.write_text(text, encoding="utf-8")
    return read_template(str(path))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Hi", Template("own", "Hi")),
        (" Hi $a \n\n", Template("own", "Hi $a")),
        ("---\nsystem: s\nmodel: m\nprovider: p\n---\nHi", Template("own", "Hi", "s", "m", "p")),
        ("---\nsystem: s\n---", Template("own", "", "s")),
        ("---  \nsystem :  s  \n---\t\n\nHi", Template("own", "Hi", "s")),
        ('---\n# a comment\n\na: "1"\n---\n$a', Template("own", "$a", defaults={"a": "1"})),
        (
            "---\na: '1'\nb: ''\nc: '\n---\n$a$b$c",
            Template("own", "$a$b$c", defaults={"a": "1", "b": "", "c": "'"}),
        ),
        ("---\na: \"1'\n---\n$a", Template("own", "$a", defaults={"a": "\"1'"})),
        ("---\na: 1: 2\n---\n${a}", Template("own", "${a}", defaults={"a": "1: 2"})),
        (
            "---\na: |\n  one\n\n\ttwo\nb: x\n---\n$a$b",
            Template("own", "$a$b", defaults={"a": "one\n\ntwo", "b": "x"}),
        ),
        ("text\n---\nsystem: s\n---\n", Template("own", "text\n---\nsystem: s\n---")),
    ],
)
def test_lines_between_dashes_are_settings_and_defaults(folder, text, expected):
    assert parsed(folder, text) == expected


@pytest.mark.parametrize(
    ("text", "placeholders", "takes_input"),
    [
        ("Hi", set(), False),
        ("$input", set(), True),
        ("${input} $a ${b} $$c $ 5$", {"a", "b"}, True),
        ("---\nsystem: Be $how.\n---\n", {"how"}, True),
        ("---\nsystem: Be $how.\n---\nHi", {"how"}, False),
    ],
)
def test_names_behind_a_dollar_sign_are_parameters(folder, text, placeholders, takes_input):
    template = parsed(folder, text)

    assert (set(template.placeholders), template.takes_input) == (placeholders, takes_input)


def test_parameters_are_filled_in_and_the_place_of_the_message_stays(folder):
    first = parsed(folder, "---\nsystem: $a and $$\na: A\n---\n$a ${b} $input $$ $ 5")
    second = parsed(folder, "Only $c")

    texts, systems = filled([first, second], {"b": "$B$input", "c": "C"})

    assert [text.safe_substitute(input="<$x>") for text in texts] == ["A $B$input <$x> $ $ 5", "Only C"]
    assert systems == ["A and $"]
    assert filled([parsed(folder, "---\nsystem: s\n---")], {}) == ([], ["s"])
    with pytest.raises(UsageError, match="the template own needs b, c") as caught:
        filled([parsed(folder, "$c $a $b")], {"a": "1"})
    assert caught.value.hint == "--param b … --param c …"
    with pytest.raises(UsageError, match="no template has the parameter 'x'") as caught:
        filled([second], {"c": "C", "x": "1"})
    assert caught.value.hint == "parameters of these templates: $c"


def test_names_are_those_of_files_without_their_ending(folder):
    for name in ("b.md", "b.txt", "a", "c.py", ".hidden"):
        for kind in ("fragments", "templates"):
            (folder / kind / "folder").mkdir(parents=True, exist_ok=True)
            (folder / kind / name).write_text("x")

    assert saved_names("templates") == saved_names("fragments") == ["a", "b", "c.py"]
    assert saved_names("none") == []
    found = {name: fragment_file(name) for name in ("a", "b", "b.txt", "c", "folder", "../x", "", "x" * 101)}
    files = {"a": "a", "b": "b.md", "b.txt": "b.txt"}
    assert found == {name: folder / "fragments" / files[name] if name in files else None for name in found}


@pytest.mark.parametrize("name", ["", ".", ".hidden", "a b", "x" * 101, "a\n"])
def test_what_cannot_be_a_name_is_refused(folder, name):
    with pytest.raises(UsageError, match="cannot be the name of a template"):
        read_template(name)


def test_a_file_that_is_no_text_is_refused(folder):
    (folder / "own.md").write_bytes(b"\xff")

    with pytest.raises(UsageError, match="it is not UTF-8"):
        read_template(str(folder / "own.md"))
    with pytest.raises(UsageError, match="Is a directory"):
        read_template(f"{folder}/")
    with pytest.raises(UsageError, match=f"there is no template '{'x' * 100}'"):
        read_template("x" * 100)
