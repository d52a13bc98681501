"""The reference names every command, option, key, setting, crash point and HTTP method, and no others."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import msgspec
import pytest
import typer
from starlette.routing import Mount

from roost.cli.asking import cloudfile
from roost.cli.main import app
from roost.cli.manage import app as manage_app
from roost.cli.serving.access import _open_paths
from roost.cli.serving.cloud_wiring import CloudParts
from roost.cli.serving.crash_points import CRASH_POINTS
from roost.cli.serving.roles import SERVICES, ProcessConfig
from roost.cli.serving.wiring import Parts, agent_app, main_app
from roost.cli.settings import Settings, read_settings
from roost.compute.service import Compute
from roost.conductor.context import Conductor
from roost.platform.http import MethodRoute

SRC = Path(__file__).parents[2] / "src" / "roost"
REFERENCE = Path(__file__).parents[2] / "docs" / "reference"


def leaves(group: click.Group) -> Iterator[tuple[str, click.Command]]:
    """Every command that does something, by its whole name."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from ((f"{name} {inner}", leaf) for inner, leaf in leaves(command))
        else:
            yield name, command


@pytest.mark.parametrize(
    ("program", "commands"),
    [
        ("roost", app),
        ("roost-manage", manage_app),
    ],
)
def test_every_command_and_option_is_in_the_reference(program: str, commands: typer.Typer) -> None:
    text = (REFERENCE / "command-line.md").read_text()
    group = typer.main.get_command(commands)
    assert hasattr(group, "commands")
    for name, command in leaves(group):
        assert f"## `{program} {name}`" in text
        section = text.split(f"## `{program} {name}`")[1].split("\n## ")[0]
        missing = [
            word for option in command.params for word in option.opts if word[0] == "-" and f"`{word}`" not in section
        ]
        assert set(missing) <= {"-h", "--help"}, name


def test_every_path_that_needs_no_token_is_in_the_reference() -> None:
    """With what it costs; a `/` at the end makes no other path, and a service alone has its own at the root too."""
    section = (REFERENCE / "api.md").read_text().partition("\n## Without a token")[2].partition("\n## ")[0]
    named = {path.rstrip("/") for path in re.findall(r"`(/[\w./-]*)`", section)}
    paths = {path.rstrip("/") for path in _open_paths(SERVICES) if not path.endswith("/openapi.json")}
    assert paths - named == set()


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
            assert f"| `{option.name}` | {shown(option.default)} |" in part


def shown(default: Any) -> str:
    """A default as the reference writes it: lists as words, nothing at all for an empty text and for what follows."""
    if default is None:
        return ""
    if isinstance(default, bool):
        return str(default).lower()
    if isinstance(default, str | tuple):
        words = [default] if isinstance(default, str) else default
        return ", ".join(f"`{word}`" for word in words if word)
    return str(default) if isinstance(default, int) else f"{default:g}"


def test_every_crash_point_is_in_the_reference() -> None:
    text = (REFERENCE / "crash-points.md").read_text()
    assert [name for name in CRASH_POINTS if name not in text] == []


def test_the_code_passes_every_crash_point_that_is_listed_and_no_other() -> None:
    texts = [path.read_text() for path in SRC.rglob("*.py")]
    named = {name for text in texts for name in re.findall(r'crash_point\(f?"([^"]+)"\)', text)}
    by_stage = {name.replace("{stage}", stage) for name in named for stage in ("fail", "delete")}
    assert by_stage == set(CRASH_POINTS)


def methods_served() -> set[tuple[str, str]]:
    """(method, path) of both listeners, with every service on; the routes need no database to be made."""
    nothing: Any = None
    parts = Parts(
        database=nothing,
        wakeups=nothing,
        telemetry=nothing,
        health=nothing,
        settings=read_settings(None),
        ledger=nothing,
        cloud=CloudParts(
            networks=nothing,
            compute=Compute(nothing, nothing, nothing),
            conductor=Conductor(*[nothing] * 6),
            network_policy=nothing,
            compute_policy=nothing,
        ),
        policy=nothing,
        keystone=None,
    )
    config = ProcessConfig(
        role="api", number=1, services=SERVICES, dsn="", pool_size=1, host="", port=0, agent_host="", agent_port=0
    )
    served = set()
    for listener in (main_app(config, parts), agent_app(parts)):
        for route in listener.routes:
            inner = route.routes if isinstance(route, Mount) else [route]
            prefix = route.path if isinstance(route, Mount) else ""
            for one in inner:
                path = prefix + one.path
                methods = one.methods_served if isinstance(one, MethodRoute) else ("GET",)
                if not path.endswith("{path:path}"):
                    served |= {(method, path) for method in methods}
    return served


def test_every_method_of_every_path_is_in_the_reference_and_no_other() -> None:
    text = (REFERENCE / "api.md").read_text()
    written = set(re.findall(r"^\| `([A-Z]+) (/[^`]*)` \| .*\S.* \|$", text, re.MULTILINE))
    served = methods_served()
    assert len(served) > 50
    assert served == written, f"not in api.md: {sorted(served - written)}; not served: {sorted(written - served)}"
