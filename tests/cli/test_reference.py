"""The reference names every command, option, key and setting."""

from pathlib import Path

import click
import msgspec
import pytest
import typer

from roost.cli import cloudfile
from roost.cli.main import app
from roost.cli.wiring import Settings
from roost.platform.crash import CRASH_POINTS

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"


def test_every_command_and_option_is_in_the_reference() -> None:
    text = (REFERENCE / "command-line.md").read_text()
    group = typer.main.get_command(app)
    assert isinstance(group, click.Group) or hasattr(group, "commands")
    for name, command in group.commands.items():
        assert f"## `roost {name}`" in text
        section = text.split(f"## `roost {name}`")[1].split("\n## ")[0]
        missing = [
            word for option in command.params for word in option.opts if word[0] == "-" and f"`{word}`" not in section
        ]
        assert set(missing) <= {"-h", "--help"}, name


@pytest.mark.parametrize(
    "kind",
    [cloudfile.Cloud, cloudfile.Flavor, cloudfile.Network, cloudfile.Segment, cloudfile.Subnet, cloudfile.Hosts],
)
def test_every_key_of_the_cloud_file_is_in_the_reference(kind: type[msgspec.Struct]) -> None:
    text = (REFERENCE / "cloud-file.md").read_text()
    assert [key for key in kind.__struct_fields__ if f"`{key}`" not in text] == []


def test_every_setting_is_in_the_reference_with_its_default() -> None:
    text = (REFERENCE / "configuration.md").read_text()
    for section in msgspec.structs.fields(Settings):
        assert f"## `[{section.name}]`" in text
        part = text.split(f"## `[{section.name}]`")[1].split("\n## ")[0]
        for option in msgspec.structs.fields(section.type):
            assert f"| `{option.name}` | {option.default:g} |" in part


def test_every_crash_point_is_in_the_reference() -> None:
    text = (REFERENCE / "crash-points.md").read_text()
    assert [name for name in CRASH_POINTS if name not in text] == []
