"""Every pair of operations on one server, at once: all lock in one order (R29), so none is a deadlock's victim."""

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any

import pytest
from tests.agent.cloud import AGENT
from tests.compute.reporting import report
from tests.conductor.world import BY, World
from tests.network.cloud import PROJECT

from roost.compute.model.server import MigrationFilter, ServerUpdate
from roost.compute.model.work import MoveKind
from roost.compute.rules import actions as rules
from roost.compute.service import guests
from roost.compute.service.actions import change_power, lock, rebuild, reset_state, unlock
from roost.compute.service.flavors import FlavorRequest, create_flavor
from roost.compute.service.interfaces import attach_interface, detach_interface
from roost.compute.service.moves import abort_migration, confirm_due, force_complete, list_migrations
from roost.compute.service.nics import ports_changed
from roost.compute.service.quotas import QUOTAS
from roost.compute.service.server_changes import set_metadata, update_server
from roost.compute.service.servers import delete_server, get_server
from roost.compute.settings import ComputeSettings
from roost.conductor.pipeline import run_once
from roost.platform.database import Database
from roost.platform.errors import DatabaseUnavailable, RoostError
from roost.seams.agent import GuestReport, GuestsBody, ListedGuest
from roost.seams.compute import PortsChange

Operation = Callable[[World, str], Awaitable[Any]]

HOSTS = ("h1", "h2", "h3")
POWER = (rules.STOP, rules.PAUSE, rules.SUSPEND, rules.REBOOT_SOFT, rules.REBOOT_HARD)
MOVE_KINDS = (MoveKind.MIGRATE, MoveKind.LIVE, MoveKind.EVACUATE, MoveKind.SHELVE)


async def _report(world: World, server_id: str) -> None:
    server = await get_server(world.compute, server_id)
    for state in ("running", "stopped"):
        said = GuestReport(server_id=server_id, host=server.host or "", attempt=1, state=state)
        await report(world.compute, [said], agent=AGENT)


async def _list(world: World, server_id: str, *, present: bool) -> None:
    server = await get_server(world.compute, server_id)
    attempt = ListedGuest(server_id=server_id, host=server.host or "", attempt=1)
    before = max((host for host in HOSTS if host < (server.host or "")), default="")
    body = GuestsBody(agent=AGENT, guests=(attempt,) if present else (), as_of=4e9, after=before, until=server.host)
    await guests.compare_guests(world.compute, body)


async def _detach(world: World, server_id: str) -> None:
    server = await get_server(world.compute, server_id)
    await detach_interface(world.compute, server, server.ports[0].port_id or "", BY)


async def _end_copy(world: World, server_id: str, *, end: Any) -> None:
    only = MigrationFilter(server_id=server_id, open=True)
    for migration in await list_migrations(world.compute, only, marker=None, limit=1):
        await end(world.compute, server_id, migration.id, BY)


OPERATIONS: Mapping[str, Operation] = {
    **{rule.task_state or rule.name: partial(lambda w, s, rule: change_power(w.compute, s, rule, BY), rule=rule)
       for rule in POWER},
    **{kind.value: partial(lambda w, s, kind: w.move(s, kind), kind=kind) for kind in MOVE_KINDS},
    "resize": lambda w, s: w.move(s, MoveKind.RESIZE, flavor="large"),
    "abort": partial(_end_copy, end=abort_migration),
    "force": partial(_end_copy, end=force_complete),
    "metadata": lambda w, s: set_metadata(w.compute, s, {"a": "b"}, replace=False, may_be_locked=True, by=BY),
    "rebuild": lambda w, s: rebuild(w.compute, s, ServerUpdate(image_ref=""), BY),
    "delete": lambda w, s: delete_server(w.compute, s, by=BY),
    "confirm": lambda w, s: w.end_move(s, revert=False),
    "revert": lambda w, s: w.end_move(s, revert=True),
    "confirm when due": lambda w, s: confirm_due(w.compute),
    "attach": lambda w, s: attach_interface(w.compute, s, None, BY, permissions=None),
    "detach": _detach,
    "reset state": lambda w, s: reset_state(w.compute, s, BY, active=False),
    "lock": lambda w, s: lock(w.compute, s, BY, reason=None),
    "unlock": lambda w, s: unlock(w.compute, s, BY),
    "update": lambda w, s: update_server(w.compute, s, ServerUpdate(name="other"), BY),
    "report": _report,
    "list without it": partial(_list, present=False),
    "list with it": partial(_list, present=True),
    "ports changed": lambda w, s: ports_changed(w.compute, [PortsChange(s)]),
    "conductor": lambda w, s: run_once(w.conductor),
}  # fmt: skip
"""By name; what is refused has locked by then all that it locks."""

PAIRS = [*itertools.combinations(OPERATIONS, 2), *((name, name) for name in OPERATIONS)]
PAIRS += [pair for pair in PAIRS if "delete" in pair] * 3


MOVED: Mapping[str, tuple[MoveKind | None, set[str]]] = {
    "running": (None, OPERATIONS.keys() - {"abort", "force"}),
    "waiting to be confirmed": (MoveKind.MIGRATE, {"confirm", "revert", "delete", "report", "conductor"}),
    "copying its memory": (MoveKind.LIVE, {"abort", "force"}),
}
"""Which move there is before, and of which operations both of a pair are, or one is where there is a move."""


@pytest.mark.parametrize("moved", MOVED)
async def test_no_pair_of_operations_is_a_deadlock(database: Database, moved: str) -> None:
    kind, names = MOVED[moved]
    world = await World.make(database)
    await world.hosts(*HOSTS, reach=["rack1"], vcpus=4000)
    await create_flavor(world.compute, FlavorRequest(name="large", vcpus=2, ram_mb=512, disk_gb=1))
    await QUOTAS.set(world.compute, PROJECT, {"cores": 10_000}, check=False)  # who has one is locked and counted
    network = await world.routed(rack1="10.0.0.0/20")
    pairs = [pair for pair in PAIRS if (names.issuperset(pair) if kind is None else not names.isdisjoint(pair))]
    server_ids = await world.boot(network.id, count=len(pairs))
    await world.run()
    if kind is not None:
        for server_id in server_ids:
            await world.move(server_id, kind)
        await world.conduct()
    if kind is MoveKind.MIGRATE:
        await world.run()
        world.compute.settings = ComputeSettings(resize_confirm_window=0.001)
    before = await _count_deadlocks(database)
    unserved: list[tuple[tuple[str, str], str]] = []
    for pair, server_id in zip(pairs, server_ids, strict=True):
        answers = await asyncio.gather(
            *(OPERATIONS[name](world, server_id) for name in pair), run_once(world.conductor), return_exceptions=True
        )
        unserved += [(pair, repr(answer)) for answer in answers if _is_unserved(answer)]
    assert not unserved
    assert await _count_deadlocks(database) == before


def _is_unserved(answer: Any) -> bool:
    """Return whether a client would get a 5xx."""
    return isinstance(answer, BaseException) and (
        isinstance(answer, DatabaseUnavailable) or not isinstance(answer, RoostError)
    )


async def _count_deadlocks(database: Database) -> int:
    async with database.connection() as connection:
        await connection.execute("SELECT pg_stat_force_next_flush()")
        return int(
            await connection.fetchval("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()")
        )
