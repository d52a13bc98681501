"""Drains and recoveries over the API: begun or found again, and watched until they are over."""

import asyncio
from collections.abc import Callable, Sequence
from urllib.parse import urlencode

import msgspec
from msgspec import Struct

from roost.cli.asking.cloud_client import CloudClient, CloudRefused, Json
from roost.cli.plurals import is_or_are, many
from roost.seeing.model import DrainPlan, ServerStaying

LOOK_S = 1.0
STAYING_SHOWN = 20
PATHS = {"drain": "/roost/v1/drains", "recover": "/roost/v1/recoveries"}


class DrainState(Struct, frozen=True, kw_only=True):
    """A drain as the API shows it, as far as people are told."""

    id: int
    kind: str
    state: str
    hosts: tuple[str, ...]
    segment: str | None
    servers: int
    gone: int
    ready: int
    moving: int
    staying: tuple[ServerStaying, ...]

    @property
    def is_over(self) -> bool:
        """Return whether nothing is done any more."""
        return self.state in ("done", "cancelled")


class BegunDrain(Struct, frozen=True):
    """What was begun, None for a dry run, and what it comes to. document: both as the API answered."""

    drain: DrainState | None
    plan: DrainPlan
    document: Json


async def begin(client: CloudClient, kind: str, body: Json) -> BegunDrain:
    """Begin a drain or a recovery, or find the one of the same hosts again. Raises CloudRefused."""
    document = await client.call("POST", PATHS[kind], body)
    drain = document["drain"]
    return BegunDrain(
        None if drain is None else msgspec.convert(drain, DrainState),
        msgspec.convert(document["plan"], DrainPlan),
        document,
    )


async def cancel(client: CloudClient, drain_id: int) -> DrainState:
    """Cancel a drain. Raises CloudRefused."""
    document = await client.call("DELETE", f"{PATHS['drain']}/{drain_id}")
    return msgspec.convert(document["drain"], DrainState)


async def find(client: CloudClient, kind: str, hosts: Sequence[str], segment: str | None) -> DrainState:
    """Return the youngest drain of just these hosts, or of the segment. Raises CloudRefused where there is none."""
    query = f"?{urlencode([('host', host) for host in hosts])}" if hosts else ""
    listed = await client.call("GET", f"{PATHS['drain']}{query}")
    for drain in msgspec.convert(listed["drains"], list[DrainState]):
        is_named = segment == drain.segment if segment else set(hosts) == set(drain.hosts)
        if drain.kind == kind and is_named:
            return drain
    named = f"segment {segment}" if segment else f"just {', '.join(hosts)}"
    raise CloudRefused(f"there is no {kind} of {named}: `--watch ID` names one by its number")


async def watch(client: CloudClient, drain_id: int, tell: Callable[[DrainState], None]) -> Json:
    """Tell of a drain each time that it was looked at, until it is over; return the last answer.

    Raises CloudRefused.
    """
    while True:
        document = await client.call("GET", f"{PATHS['drain']}/{drain_id}")
        drain = msgspec.convert(document["drain"], DrainState)
        tell(drain)
        if drain.is_over:
            return document
        await asyncio.sleep(LOOK_S)


def plan_lines(plan: DrainPlan) -> list[str]:
    """Return what a drain comes to, in lines."""
    parts = [
        f"{count:,} {words}"
        for count, words in ((plan.live, "live"), (plan.cold, "cold"), (plan.evacuated, "made again elsewhere"))
        if count
    ]
    parts += [f"{len(plan.staying):,} cannot go"] if plan.staying else []
    amounts = f": {', '.join(parts)}" if parts else ""
    return [f"{many(plan.servers, 'server')}{amounts}.", *staying_lines(plan.staying)]


def progress_line(drain: DrainState) -> str:
    """Return how far a drain is, in one line."""
    parts = [f"{drain.gone:,} of {many(drain.servers, 'server')} gone", f"{drain.moving:,} under way"]
    parts += [f"{drain.ready:,} to go"] if drain.ready else []
    parts += [f"{len(drain.staying):,} waiting or staying"] if drain.staying else []
    noun = "recovery" if drain.kind == "recover" else "drain"
    return f"{noun} {drain.id}, {drain.state}: {', '.join(parts)}"


def end_lines(drain: DrainState) -> list[str]:
    """Return what came of a drain that is over."""
    end = "is done" if drain.state == "done" else "was cancelled"
    count = len(drain.staying)
    staying = "all servers have left" if not count else f"{many(count, 'server')} {is_or_are(count)} left"
    hosts = many(len(drain.hosts), "host")
    gone = f"{drain.gone:,} of {many(drain.servers, 'server')} gone"
    noun = "Recovery" if drain.kind == "recover" else "Drain"
    return [f"{noun} {drain.id}, of {hosts}, {end}: {gone}, {staying}.", *staying_lines(drain.staying)]


def staying_lines(staying: Sequence[ServerStaying]) -> list[str]:
    """Return a line for each of the first servers that stay, and how many more there are."""
    lines = [f"  {server.host} {server.name} ({server.server_id}): {server.reason}" for server in staying]
    more = len(lines) - STAYING_SHOWN
    return lines if more <= 0 else [*lines[:STAYING_SHOWN], f"  ... and {more:,} more: --json has them all"]
