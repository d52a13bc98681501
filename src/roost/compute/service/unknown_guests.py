"""Guests that agents list and nobody here asked for: their addresses are held, and a person decides on them.

The network service is told all that a host has, at once where a list changed it, and again in rounds.
"""

from collections.abc import Collection

import structlog

from roost.compute.errors import GuestNotFound, GuestWanted
from roost.compute.model.unknown_guests import UnknownGuest
from roost.compute.model.work import GUEST_CHANNEL
from roost.compute.rules import unknown_guests as rules
from roost.compute.rules.unknown_guests import Chosen
from roost.compute.service.context import Compute
from roost.compute.store import unknown_guests as store
from roost.platform.repeat import at_once
from roost.seams.agent import GuestKey
from roost.seams.unknown_guests import HeldAddresses

log = structlog.get_logger()


async def hold_addresses(compute: Compute, hosts: Collection[str]) -> list[HeldAddresses]:
    """Tell the network service what the hosts' unknown guests have, which may be nothing; return what it holds."""
    async with compute.database.connection() as connection:
        as_of = await store.read_clock(connection)  # R46: before the guests
        guests = await store.list_unknown_guests(connection, hosts)
    chosen = rules.choose_holding(guests)
    guests_by_host = {
        host: [rules.with_nics(guest) for guest in chosen.holding if guest.host == host] for host in sorted(hosts)
    }
    return await compute.network.hold_addresses(guests_by_host, as_of=as_of)


async def _hold_and_warn(compute: Compute, hosts: Collection[str]) -> None:
    """Hold the addresses of the hosts' unknown guests, which a list has changed; log those that are used twice."""
    for answer in await hold_addresses(compute, hosts):
        for holder in answer.used:
            log.warning(
                "address used twice: an unknown guest has it, and another port",
                address=holder.address,
                guest=answer.server_id,
                host=answer.host,
                other=holder.words,
            )


hold_addresses_now = at_once(_hold_and_warn, "holding addresses of unknown guests")


async def hold_round(compute: Compute) -> None:
    """Tell the network service of every host that has unknown guests, or for which it holds something."""
    async with compute.database.connection() as connection:
        hosts = await store.list_hosts(connection)
    hosts |= await compute.network.list_holding_hosts()
    if hosts:
        await hold_addresses(compute, hosts)


async def list_unknown_guests(
    compute: Compute, *, limit: int | None = None
) -> tuple[list[UnknownGuest], Chosen, dict[GuestKey, HeldAddresses]]:
    """Return unknown guests, whether they hold their addresses, and what the network service says of these."""
    async with compute.database.connection() as connection:
        guests = await store.list_unknown_guests(connection, limit=limit)
    chosen = rules.choose_holding(guests)
    guests_holding = [rules.with_nics(guest) for guest in chosen.holding]
    answers = await compute.network.list_held_addresses(guests_holding) if guests_holding else []
    return guests, chosen, rules.by_key(answers)


async def count_unknown_guests(compute: Compute) -> dict[str, int]:
    """Return how many unknown guests hold their addresses, how many are over a bound, of how many no agent says any."""
    async with compute.database.connection() as connection:
        chosen = rules.choose_holding(await store.list_unknown_guests(connection))
    return {
        "held": len(chosen.holding),
        "over_bound": len(chosen.over_bound),
        "unsaid": len(chosen.silent),
    }


async def destroy_unknown_guest(compute: Compute, server_id: str, host: str) -> None:
    """Order that a guest is destroyed that its host lists and nobody asked for, as a person decided.

    Its addresses are held until its host says that it is gone. Raises GuestNotFound, and GuestWanted where the server
    is to run on that host: it must be deleted first.
    """
    async with compute.database.transaction() as tx:
        desired = await store.destroy_unknown_guest(tx, server_id, host)
        if desired is None:
            raise GuestNotFound(f"host {host} lists no unknown guest of server {server_id}")
        if desired != "absent":
            raise GuestWanted(f"server {server_id} is to run on host {host}: delete the server first")
    compute.wake(GUEST_CHANNEL)
