"""Servers that move between two agents with journals of their own, and what must hold of their guests at all times."""

import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import msgspec
from tests.cluster import UPSTREAM_LEASE_S, Cluster, until
from tests.placements import ARRANGEMENT
from tests.world import read_notes

from roost.agent.drivers.fake import GuestLine, list_guests
from roost.cli.asking.cloud_client import CloudClient, Json
from roost.seams.agent import NICS_UP


class Period(NamedTuple):
    """A time, from which and until which, in which a guest of a server had its NICs up on a host."""

    server_id: str
    began_ns: int
    ended_ns: int
    host: str


def list_overlaps(directory: Path) -> list[tuple[Period, Period]]:
    """Return pairs of periods in which two hosts had NICs of one server up at once, by the journals of all agents."""
    latest: dict[str, Period] = {}
    overlaps = []
    for period in _all_periods(directory):
        before = latest.get(period.server_id)
        if before is not None and before.host != period.host and period.began_ns < before.ended_ns:
            overlaps.append((before, period))
        if before is None or period.ended_ns > before.ended_ns:
            latest[period.server_id] = period
    return overlaps


def list_gaps_s(directory: Path, *, since_ns: int) -> list[float]:
    """Return for how long servers had no NIC up while they went from one host to another, since then."""
    latest: dict[str, Period] = {}
    gaps = []
    for period in _all_periods(directory):
        before = latest.get(period.server_id)
        if before is not None and before.host != period.host and since_ns < period.began_ns:
            gaps.append((period.began_ns - before.ended_ns) / 1e9)
        latest[period.server_id] = period
    return gaps


def _all_periods(directory: Path) -> list[Period]:
    cuts = read_notes(directory / "power-cuts")
    journals = directory.glob("agent-*/guests.journal")
    return sorted(period for journal in journals for period in _periods(journal, cuts))


def _periods(journal: Path, cuts: Mapping[str, Sequence[int]]) -> list[Period]:
    text = journal.read_bytes()
    lines = msgspec.json.Decoder(GuestLine).decode_lines(text[: text.rfind(b"\n") + 1])
    up_since: dict[tuple[str, str], int] = {}
    periods = []

    def end(key: tuple[str, str], ended_ns: int) -> None:
        if (began_ns := up_since.pop(key, None)) is not None:
            off_ns = [at_ns for at_ns in cuts.get(key[1], ()) if began_ns < at_ns]
            periods.append(Period(key[0], began_ns, min([ended_ns, *off_ns]), key[1]))

    for line in lines:
        end((line.server_id, line.host), line.at_ns)
        if not line.gone and line.state in NICS_UP:
            up_since[line.server_id, line.host] = line.at_ns
    for key in list(up_since):
        end(key, time.time_ns())
    return periods


def hosts_of_guests(directory: Path) -> dict[str, list[str]]:
    """Return server id -> the hosts that have a guest of it, by the journals of all agents."""
    hosts: dict[str, list[str]] = {}
    for state in sorted(directory.glob("agent-*")):
        for server_id, host in list_guests(state) if state.is_dir() else {}:
            hosts.setdefault(server_id, []).append(host)
    return hosts


async def evacuate_all(client: CloudClient, host: str) -> list[str]:
    """Force a host down and have its servers evacuated; return them."""
    await force_down(client, host, True)
    server_ids = [server["id"] for server in await client.list_servers() if server["OS-EXT-SRV-ATTR:host"] == host]
    for server_id in server_ids:
        await act(client, server_id, "evacuate", {})
    return server_ids


async def force_down(client: CloudClient, host: str, forced_down: bool) -> None:
    """Say that a host is down, or that it is not."""
    body = {"host": host, "binary": "nova-compute", "forced_down": forced_down}
    await client.call("PUT", "/compute/v2.1/os-services/force-down", body)


async def act(client: CloudClient, server_id: str, action: str, body: object = None) -> None:
    """Ask for an action on a server."""
    await client.call("POST", f"/compute/v2.1/servers/{server_id}/action", {action: body})


async def servers_by_id(client: CloudClient) -> dict[str, Json]:
    """Return every server by its id."""
    return {server["id"]: server for server in await client.list_servers()}


async def all_are(client: CloudClient, status: str) -> None:
    """Wait until every server has that status, and nothing is being done to it."""

    async def are() -> bool:
        servers = await client.list_servers()
        return all((s["status"], s["OS-EXT-STS:task_state"]) == (status, None) for s in servers)

    try:
        await until(are)
    except AssertionError:
        seen = [(s["id"], s["status"], s["OS-EXT-STS:task_state"], s.get("fault")) for s in await client.list_servers()]
        raise AssertionError(f"not all are {status}: {seen}") from None


async def assert_moved(
    made: Cluster,
    client: CloudClient,
    before: Mapping[str, Json],
    *,
    moved: bool | None,
) -> None:
    """Fail unless each server is on one host, has the addresses that it had, and never ran twice.

    moved: whether the servers are on other hosts than before; None if they may be.
    """
    after = await servers_by_id(client)
    for server_id in before:
        server = after[server_id]
        assert server["addresses"] == before[server_id]["addresses"]
        host = server["OS-EXT-SRV-ATTR:host"]
        if moved is not None:
            assert (host != before[server_id]["OS-EXT-SRV-ATTR:host"]) == moved, (server, moved)
    hosts = {server_id: [server["OS-EXT-SRV-ATTR:host"]] for server_id, server in after.items()}
    assert hosts_of_guests(made.directory) == hosts
    assert list_overlaps(made.directory) == []


@asynccontextmanager
async def conductor(made: Cluster, **environment: str) -> AsyncIterator[CloudClient]:
    """A conductor, quick to take over, that ends with this."""
    lease_s = "1" if ARRANGEMENT != "upstream" else UPSTREAM_LEASE_S
    quick = {"ROOST_CONDUCTOR_LEASE_S": lease_s, "ROOST_CONDUCTOR_RECHECK_S": "0.2", "ROOST_CONDUCTOR_POLL_S": "0.1"}
    made.serve("conductor", environment=quick | environment)
    process = made.processes[-1]
    try:
        async with CloudClient.connect(made.url) as client:
            yield client
    finally:
        made.stop(process)


async def move_all(client: CloudClient, kind: str, server_ids: Sequence[str], flavors: Mapping[str, str]) -> None:
    """Ask for a move of that kind for every server. flavors: ids by name, of which resizes take another."""
    bodies: dict[str, tuple[str, object]] = {
        "migrate": ("migrate", None),
        "live": ("os-migrateLive", {"host": None, "block_migration": "auto"}),
        "shelve": ("shelve", None),
        "unshelve": ("unshelve", None),
    }
    for server_id in server_ids:
        if kind == "resize":
            flavor = (await client.call("GET", f"/compute/v2.1/servers/{server_id}"))["server"]["flavor"]["id"]
            action, body = "resize", {"flavorRef": next(one for one in flavors.values() if one != flavor)}
            await act(client, server_id, action, body)
        else:
            await act(client, server_id, *bodies[kind])
