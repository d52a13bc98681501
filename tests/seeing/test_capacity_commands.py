"""`roost explain` and `roost capacity` as operators use them: what they print, and what their exit status means."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from click.testing import Result
from tests.conductor.world import World
from tests.placements import serving
from tests.seeing.test_asking import Asked
from typer.testing import CliRunner

from roost.cli.asking.what_if import read_what_if
from roost.cli.main import app
from roost.compute.service.hosts import disable_host
from roost.network.model.networks import Network
from roost.platform.database import Database
from roost.platform.errors import BadRequest


class Terminal:
    """Who types commands, against a Roost of two racks: one of five addresses, one of a single host with 4 VCPUs."""

    def __init__(self, asked: Asked, network: Network, url: str) -> None:
        self.asked, self.network, self.url = asked, network, url

    async def run(self, *words: str) -> Result:
        """A command's end."""
        return await asyncio.to_thread(CliRunner().invoke, app, [*words, "--api", self.url], env={"COLUMNS": "200"})

    async def run_servers(self, command: str, *words: str) -> Result:
        """The same about servers of the flavor small on the network."""
        return await self.run(command, "--flavor", "small", "--network", self.network.id, *words)


@pytest.fixture
async def terminal(database: Database) -> AsyncIterator[Terminal]:
    world = await World.make(database, arrangement="local")
    await world.hosts("r1-h1", "r1-h2", reach=["rack1"], vcpus=4)
    await world.hosts("r2-h1", reach=["rack2"], vcpus=4)
    asked = Asked(world)
    network = await world.routed(rack1="10.1.0.0/29", rack2="10.2.0.0/26")
    await asked.get("capacity")  # what the service logs as it loads its index, is no output of a command
    async with serving(asked.app) as url:
        yield Terminal(asked, network, url)


async def test_explain_ends_with_0_where_all_fit_and_with_1_where_it_says_what_would_help(terminal: Terminal) -> None:
    result = await terminal.run_servers("explain", "--count", "9")
    assert result.exit_code == 0, result.output
    lines = result.output.splitlines()
    assert lines[0] == "All 9 fit."
    assert [line.split() for line in lines if "rack" in line] == [["net", "rack1", "5"], ["net", "rack2", "4"]]
    assert lines[-1].startswith("Servers by host: r2-h1 4, ")
    await disable_host(terminal.asked.world.compute, "r2-h1")
    result = await terminal.run_servers("explain", "--count", "6")
    assert result.exit_code == 1, result.output
    assert "\nNearest:\n  rack1: 1 address (for r1-h1, r1-h2)\n" in result.output
    assert "\nWould help, each by itself (tried):\n  enable host r2-h1\n  give segment rack1 of" in result.output


async def test_capacity_says_how_many_and_what_is_stranded_and_ends_with_1_where_none_fits(terminal: Terminal) -> None:
    result = await terminal.run_servers("capacity")
    assert result.exit_code == 0, result.output
    lines = result.output.splitlines()
    assert lines[0] == "9 more fit, in whatever order they come."
    assert "addresses binds: 3 more would fit without that limit." in lines
    assert [line.split() for line in lines if line.startswith("net")][1:] == [
        ["net", "rack1", "2", "8", "5", "5", "3", "0"],
        ["net", "rack2", "1", "4", "61", "4", "0", "57"],
    ]
    assert (await terminal.run_servers("capacity", "--host", "r1-h1")).output.startswith("4 more fit")
    for host in ("r1-h1", "r1-h2", "r2-h1"):
        await disable_host(terminal.asked.world.compute, host)
    result = await terminal.run_servers("capacity")
    assert (result.exit_code, result.output.splitlines()[0]) == (1, "0 more fit, in whatever order they come.")


async def test_the_table_needs_no_flavor_and_a_file_says_what_would_be_otherwise(
    terminal: Terminal, tmp_path: Path
) -> None:
    result = await terminal.run("capacity")
    assert result.exit_code == 0, result.output
    assert result.output.startswith("3 hosts, of which 3 take servers.\n")
    assert ["net", "rack2", "61", "61", "1", "1", "4", "0", "0"] in [
        line.split() for line in result.output.splitlines()
    ]

    file = tmp_path / "what-if.yaml"
    file.write_text(
        f"hosts: [{{name: 'r3-h[1-2]', like: r2-h1}}]\ndrained: [{{network: {terminal.network.id}, segment: rack1}}]"
    )
    result = await terminal.run_servers("capacity", "--what-if", str(file), "--json")
    assert result.exit_code == 0, result.output
    answer = json.loads(result.output)
    assert answer["servers"]["most"] == 12
    assert answer["drained"] == {"hosts": ["r1-h1", "r1-h2"], "servers_moved": 0, "servers_staying": []}


async def test_what_failed_has_another_status_than_no(terminal: Terminal) -> None:
    for words, status, text in (
        (("explain", "--flavor", "none"), 255, "Flavor none could not be found"),
        (("explain",), 127, "expected --flavor, --like or --request"),
        (("explain", "--request", "req-1", "--count", "2"), 127, "nothing else is asked"),
        (("capacity", "--what-if", "/nowhere"), 127, "/nowhere: No such file"),
    ):
        result = await terminal.run(*words)
        assert (result.exit_code, text in " ".join(result.output.split())) == (status, True), result.output


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("hosts: [{name: a}]", "missing required field `like`"),
        ("hosts: [{name: 'a[1-', like: b}]", "expected a range such as [1-4]"),
        ("segments: [{network: n, addresses: 0}]", "addresses"),
        ("drained: [{segment: s}]", "hosts, or a network and its segment"),
        ("racks: []", "unknown field `racks`"),
        ("hosts: [", "this is not YAML"),
    ],
)
def test_a_bad_file_is_told_what_was_expected(text: str, words: str, tmp_path: Path) -> None:
    file = tmp_path / "what-if.yaml"
    file.write_text(text)
    with pytest.raises(BadRequest, match=r"what-if\.yaml: ") as refused:
        read_what_if(file)
    assert words in str(refused.value)
