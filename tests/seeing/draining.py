"""A whole Roost in one process whose hosts are drained: rounds are had when a test says so."""

from collections.abc import Sequence
from typing import Any

from tests.conductor.world import BY, LEASE_S, World

from roost.compute.service.servers import get_server
from roost.seeing.model import Drain, DrainKind, DrainRequest
from roost.seeing.service.context import Seeing
from roost.seeing.service.drain_rounds import work_on_drains
from roost.seeing.service.drains import Begun, begin_drain, get_drain

ROUNDS_MAX = 40


class Operator:
    """Who drains hosts of a world."""

    def __init__(self, world: World) -> None:
        self.world = world
        conductor = world.conductor
        self.seeing = Seeing(world.compute, world.networks, conductor.env, conductor.scheduling)

    async def ask(self, *hosts: str, kind: DrainKind = DrainKind.DRAIN, dry_run: bool = False, **more: Any) -> Begun:
        """Ask for a drain, or with `kind` for a recovery."""
        request = DrainRequest(kind=kind, hosts=hosts, **more)
        return await begin_drain(self.seeing, request, BY, dry_run=dry_run)

    async def begin(self, *hosts: str, **more: Any) -> Drain:
        """Begin one."""
        begun = await self.ask(*hosts, **more)
        assert begun.drain is not None
        return begun.drain

    async def due(self) -> None:
        """As if time had passed: rounds are due, leases have run out, and failures are long ago."""
        async with self.world.database.connection() as connection:
            await connection.execute(
                "UPDATE seeing.drain SET due_at = now(), lease_until = now(), created_at = now() - interval '1 min'"
            )
            await connection.execute("UPDATE compute.action SET updated_at = now() - interval '1 min'")

    async def round(self) -> None:
        """One round of each drain that is open."""
        await self.due()
        await work_on_drains(self.seeing, lease_s=LEASE_S)

    async def run(self, drain_id: int, **hosts: Sequence[str]) -> Drain:
        """Rounds, conductor and hosts in turn until the drain is over. hosts: of World.run."""
        for _ in range(ROUNDS_MAX):
            await self.round()
            drain = await get_drain(self.seeing, drain_id)
            if drain.ended_at is not None:
                return drain
            await self.world.run(**hosts)
        raise AssertionError(f"the drain is not over: {drain}")

    async def hosts_of(self, server_ids: Sequence[str]) -> list[str | None]:
        """Where the servers are."""
        return [(await get_server(self.world.compute, server_id)).host for server_id in server_ids]


class KilledHereToo(BaseException):
    """The conductor died in the middle of a round."""
