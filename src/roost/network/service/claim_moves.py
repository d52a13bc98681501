"""Inventories and claims that change together: of subnets whose pools take in or drop addresses, or change hands.

A port's claim becomes its addresses that count once the change has ended. Its consumer is read before its addresses, so
that the ledger refuses what was decided on older ones.
"""

import asyncio
from collections.abc import Mapping, Sequence

import msgspec
from msgspec import Struct

from roost.network.errors import PublicationPending
from roost.network.model.networks import PLAIN_NAME, Subnet
from roost.network.model.ports import Address, Holding, Port, PortFilter
from roost.network.rules import addressing, inventory
from roost.network.rules.holdings import claim_of
from roost.network.rules.ranges import holds
from roost.network.service import Networks, releases
from roost.network.store import addresses, claims, ports, subnets
from roost.network.store import subnet_changes as store
from roost.platform.crash import crash_point
from roost.seams.placement import (
    ConsumerClaim,
    ConsumerState,
    ConsumerType,
    ProviderState,
    Refused,
    Rule,
    same_allocations,
)

ROUNDS_MAX = 20
POLL_S = 0.02


class _Moves(Struct, frozen=True):
    """What the ledger is to be told of ports.

    ports: those whose claims move, or of which it is not noted yet that they did, as they were when that was decided.
    """

    claims: tuple[ConsumerClaim, ...]
    ports: Mapping[str, Port]


async def reshape(
    networks: Networks,
    provider_uuids: Sequence[str],
    states: Mapping[str, ProviderState | None],
    changing: Sequence[Subnet],
) -> tuple[set[str], set[str]]:
    """Reshape the providers on which a subnet is changing. Returns those told, and those that refuse it.

    states: of the providers, as they should be; changing: subnets as they were at the same instant. Raises
    PublicationPending when ports do not hold still.
    """
    told: set[str] = set()
    refusing: set[str] = set()
    for provider in sorted({subnet.provider_uuid for subnet in changing} & set(provider_uuids)):
        on_it = [subnet for subnet in changing if subnet.provider_uuid == provider]
        left = _left_behind(on_it, provider)
        # One that is gone already would be made again, and nobody would be told that it is to go.
        there = await networks.placement.get_providers(left) if left else {}
        wanted = [states.get(provider) or _empty(provider), *map(_empty, sorted(there))]
        done = await _reshape(networks, on_it, wanted)
        (told if done else refusing).add(provider)
    return told, refusing


async def _reshape(networks: Networks, changing: Sequence[Subnet], wanted: Sequence[ProviderState]) -> bool:
    """Whether the ledger takes it, and then it is noted which addresses count."""
    rounds = 0
    while rounds < ROUNDS_MAX:
        moves = await _decide(networks, changing)
        if moves is None:
            await asyncio.sleep(POLL_S)
            continue
        crash_point("subnet.before-reshape")
        answer = await networks.placement.reshape(wanted, moves.claims)  # R11: inventory and claims in one step
        crash_point("subnet.after-reshape")
        if isinstance(answer, Refused):
            if not any(shortfall.rule is Rule.CONSUMER_GENERATION for shortfall in answer.shortfalls):
                return False
        elif await _note(networks, changing, moves):
            return True
        rounds += 1
    raise PublicationPending


async def _decide(networks: Networks, changing: Sequence[Subnet]) -> _Moves | None:
    """Which claims are others once the change has ended; None while somebody is just claiming for one of the ports."""
    async with networks.database.transaction() as tx:
        ids = await store.list_ports(tx, [subnet.id for subnet in changing])
    consumers = await networks.placement.get_consumers(ids) if ids else {}
    async with networks.database.transaction(snapshot=True) as tx:
        found = await ports.list_ports(tx, PortFilter(ids=tuple(ids))) if ids else []
        moving = [port for port in found if not _is_told(port, changing, consumers)]
        _, claiming = await claims.list_busy(tx, [port.id for port in moving])
    if claiming:
        return None
    unnoted = [port for port in found if any(_is_stale(item, changing) for item in port.addresses)]
    return _Moves(
        tuple(_claim(port, changing, consumers.get(port.id)) for port in moving),
        {port.id: port for port in [*moving, *unnoted]},
    )


def _is_told(port: Port, changing: Sequence[Subnet], consumers: Mapping[str, ConsumerState]) -> bool:
    held = consumers[port.id].allocations if port.id in consumers else {}
    return same_allocations(held, claim_of(_in_the_end(port.addresses, changing)))


def _is_stale(item: Address, changing: Sequence[Subnet]) -> bool:
    """Whether the address will not count, and is not noted so."""
    return item.claimed and any(subnet.id == item.subnet_id and not _counts(subnet, item) for subnet in changing)


def _in_the_end(held: Sequence[Address], changing: Sequence[Subnet]) -> list[Address]:
    """The addresses, as claimed as they are once the change has ended."""
    by_id = {subnet.id: subnet for subnet in changing}
    return [
        msgspec.structs.replace(item, claimed=_counts(by_id[item.subnet_id], item)) if item.subnet_id in by_id else item
        for item in held
    ]


def _counts(subnet: Subnet, item: Address) -> bool:
    return inventory.counts(subnet) and holds(subnet.pools, addressing.parse(item.address))


def _claim(port: Port, changing: Sequence[Subnet], consumer: ConsumerState | None) -> ConsumerClaim:
    return ConsumerClaim(
        consumer_uuid=port.id,
        generation=None if consumer is None else consumer.generation,
        consumer_type=ConsumerType.PORT.value,
        project_id=port.project_id if consumer is None else consumer.project_id,
        user_id=port.project_id if consumer is None else consumer.user_id,
        allocations=claim_of(_in_the_end(port.addresses, changing)),
    )


async def _note(networks: Networks, changing: Sequence[Subnet], moves: _Moves) -> bool:
    """The ledger counts what it was told; False if some ports are others since, of which it must be told anew.

    One that has lost an address gives its claim back as far as it may: its release may have been worked off before it
    was claimed for with that address. One that has another instead may have given up a claim that it needs. Of a change
    that has ended since, or is being taken back, nothing is noted: what counts is settled by whoever did that.
    """
    if not moves.ports:
        return True
    async with networks.database.transaction() as tx:
        now = await ports.lock_ports(tx, sorted(moves.ports))
        await addresses.lock_subnets(tx, sorted(subnet.id for subnet in changing))
        now = {port.id: port for port in await ports.list_ports(tx, PortFilter(ids=tuple(now)))}
        there = {subnet.id: subnet.change for subnet in await subnets.list_subnets(tx, [one.id for one in changing])}
        for subnet in changing:
            if there.get(subnet.id) == subnet.change:
                await store.set_holdings(tx, subnet.id, _noted(subnet, now, moves))
        lost = [port_id for port_id, port in moves.ports.items() if _places(port) - _places(now.get(port_id))]
        await claims.insert_releases(tx, lost)
    await releases.work_off_now(networks, lost)
    return all(_places(moves.ports[port_id]) == _places(port) for port_id, port in now.items())


def _noted(subnet: Subnet, now: Mapping[str, Port], moves: _Moves) -> list[Holding]:
    """What the ledger does not count any more, of what it was told of."""
    return [
        Holding(addressing.parse(item.address), item.in_pool, False)
        for port_id, port in now.items()
        for item in port.addresses
        if item.subnet_id == subnet.id
        and item.claimed
        and not _counts(subnet, item)
        and (item.subnet_id, item.address) in _places(moves.ports[port_id])
    ]


def _places(port: Port | None) -> set[tuple[str, str]]:
    return {(item.subnet_id, item.address) for item in port.addresses} if port else set()


def _left_behind(changing: Sequence[Subnet], provider: str) -> list[str]:
    """The providers that the subnets leave: a network joins its segment with all that it has."""
    return sorted({subnet.network_id for subnet in changing if subnet.change and _was_on(subnet) != provider})


def _was_on(subnet: Subnet) -> str:
    assert subnet.change is not None
    return subnet.change.before.segment_id or subnet.network_id


def _empty(provider_uuid: str) -> ProviderState:
    """A provider that is to have nothing, so that it can go."""
    return ProviderState(uuid=provider_uuid, name=PLAIN_NAME.format(provider_uuid), inventories={})
