"""What `--help` and `--version` show, of both programs and each of their commands; and counts in words."""

import re
from importlib.metadata import version

import pytest
import typer
from typer.testing import CliRunner

from roost.cli.asking.story_output import load_text
from roost.cli.main import app
from roost.cli.manage import app as manage_app
from roost.cli.plurals import is_or_are, many

PROGRAMS = (app, manage_app)


def commands_of(program: typer.Typer) -> list[list[str]]:
    """The program alone, and with each command."""
    return [[], *([name] for name in typer.main.get_command(program).commands)]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("program", "words"), [(program, words) for program in PROGRAMS for words in commands_of(program)]
)
def test_a_flag_is_shown_as_what_one_types(program: typer.Typer, words: list[str]) -> None:
    shown = CliRunner().invoke(program, [*words, "--help"]).output
    assert "--help" in shown
    assert "<bool>" not in shown
    assert "BOOLEAN" not in shown
    assert not re.search("<(str|path|list|int|float)", shown)


@pytest.mark.parametrize(
    ("program", "word", "said"),
    [
        (app, "audit", "No such command 'audit' here: it is `roost-manage audit`."),
        (manage_app, "servers", "No such command 'servers' here: it is `roost servers`."),
        (app, "nope", "No such command 'nope'."),
        (app, "sttus", "No such command 'sttus'. Did you mean 'status'?"),
    ],
)
def test_a_command_of_the_other_program_is_named(program: typer.Typer, word: str, said: str) -> None:
    done = CliRunner().invoke(program, [word])
    assert done.exit_code > 1
    assert said in " ".join(done.output.replace("│", " ").split())


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_says_its_version(program: typer.Typer) -> None:
    done = CliRunner().invoke(program, ["--version"])
    assert (done.exit_code, done.output) == (0, f"roost {version('roost')}\n")


@pytest.mark.parametrize(
    ("created", "found", "said"),
    [
        ({}, {}, "Nothing to create: the file is empty."),
        ({"flavors": 1, "hosts": 0}, {"hosts": 2}, "Created 1 flavor. There already: 2 hosts."),
        ({"flavors": 2}, {}, "Created 2 flavors."),
        ({}, {"flavors": 1}, "Nothing to create: 1 flavor is there already."),
        ({}, {"flavors": 1, "subnets": 1}, "Nothing to create: 1 flavor, 1 subnet are there already."),
    ],
)
def test_load_says_what_it_did(created: dict[str, int], found: dict[str, int], said: str) -> None:
    assert load_text(created, found) == said


def test_a_noun_stands_as_its_count_wants_it() -> None:
    assert [many(count, "address") for count in (0, 1, 1024)] == ["0 addresses", "1 address", "1,024 addresses"]
    assert (is_or_are(1), is_or_are(2)) == ("is", "are")
