"""What an operator changes of subnets in a story: pools, cut, grown and split; second subnets, made and deleted.

And what must hold of capacity: one equation, by the network's own tables, is what the ledger was told; and no change
moves a claim.
"""

from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from itertools import pairwise
from typing import NamedTuple

from tests.network.cloud import PROJECT
from tests.simulation import errors, users
from tests.simulation.beginning import SECOND, SUBNETS
from tests.simulation.naive import PoolsView, expect_pools
from tests.simulation.story import Story, find_refusal

from roost.network.errors import SubnetInUse
from roost.network.model.networks import SubnetChanges, SubnetRequest
from roost.network.rules.subnets import plan_subnet
from roost.network.service import Networks
from roost.network.service import subnets as subnet_service

NUMBERS = frozenset(range(2, 7))
"""The last parts of a subnet's addresses, but for its gateway's."""
SPLIT_SHARE = 0.3
SEEN = """
WITH base AS (SELECT s.*, set_masklen(s.cidr::inet, 32) AS base FROM network.subnet s)
SELECT s.id::text, s.network_id::text AS network, s.segment_id::text AS segment, s.provider_uuid::text AS provider,
    host(s.base) AS base,
    ARRAY(SELECT n FROM generate_series(2, 6) n JOIN network.pool l ON l.subnet_id = s.id
        AND s.base + n BETWEEN l.first_address AND l.last_address) AS pooled,
    ARRAY(SELECT (a.address - s.base)::int FROM network.address a WHERE a.subnet_id = s.id AND a.claimed) AS claimed,
    ARRAY(SELECT (a.address - s.base)::int FROM network.address a WHERE a.subnet_id = s.id AND NOT a.claimed)
        AS unclaimed,
    coalesce(i.total, 0) AS total, coalesce(i.reserved, 0) AS reserved, coalesce(i.used, 0) AS used,
    EXISTS (SELECT FROM network.publication u WHERE u.provider_uuid = s.provider_uuid AND u.wanted > u.published)
        AS due,
    (SELECT coalesce(sum(l.used - (SELECT count(*) FROM network.address a JOIN network.subnet t ON t.id = a.subnet_id
            WHERE a.port_id = l.consumer_uuid AND a.claimed AND t.provider_uuid = s.provider_uuid)), 0)::int
        FROM placement.allocation l WHERE l.provider_id = p.id
        AND EXISTS (SELECT FROM network.release r WHERE r.port_id = l.consumer_uuid)) AS leaving
FROM base s LEFT JOIN placement.provider p ON p.uuid = s.provider_uuid
LEFT JOIN placement.inventory i ON i.provider_id = p.id ORDER BY s.base
"""
CLAIMS = """
SELECT l.consumer_uuid::text, p.uuid::text, l.used, c.generation::int FROM placement.allocation l
JOIN placement.consumer c ON c.uuid = l.consumer_uuid JOIN placement.provider p ON p.id = l.provider_id
WHERE NOT EXISTS (SELECT FROM network.release r WHERE r.port_id = c.uuid)
UNION ALL SELECT port_id::text, host(address), 1, claimed::int FROM network.address
"""
"""What no change moves: claims, but for those on their way back, and addresses, with their marks."""


class SubnetSeen(NamedTuple):
    """A subnet as it was looked at, its addresses by their last parts; and its provider, as the ledger has it.

    due: the ledger is to be told of the provider. leaving: of the claims on it, what is on its way back.
    """

    id: str
    network: str
    segment: str | None
    provider: str
    base: str
    pooled: frozenset[int]
    claimed: frozenset[int]
    unclaimed: frozenset[int]
    total: int
    reserved: int
    used: int
    due: bool
    leaving: int

    @property
    def held(self) -> frozenset[int]:
        """Return what ports hold, in the pools or outside."""
        return self.claimed | self.unclaimed

    def address(self, number: int) -> str:
        """Return an address by its last part."""
        return f"{self.base.rpartition('.')[0]}.{number}"


async def change_pools(story: Story) -> None:
    """Cut, grow, split or replace the pools of a subnet; what is in use exactly may be left, or nothing.

    Most often they are cut where something is promised.
    """
    seen = await _look(story)
    promised = [subnet for subnet in seen if _view(seen, subnet, NUMBERS).promised]
    subnet = story.random.choice(promised or seen)
    some = frozenset(story.random.sample(sorted(NUMBERS), story.random.choice((1, 2, 3))))
    cuts = (subnet.pooled - some, subnet.held)
    after = story.random.choice(
        cuts if promised else (*cuts, subnet.pooled - some, subnet.pooled | some, NUMBERS, some)
    )
    numbers = sorted(after & NUMBERS)
    breaks = {
        second for first, second in pairwise(numbers) if second > first + 1 or story.random.random() < SPLIT_SHARE
    }
    firsts = [number for number in numbers if number == numbers[0] or number in breaks]
    lasts = [first for first, second in pairwise(numbers) if second in breaks] + numbers[-1:]
    pools = tuple((subnet.address(first), subnet.address(last)) for first, last in zip(firsts, lasts, strict=True))

    async def ask(networks: Networks) -> None:
        await subnet_service.update_subnet(networks, subnet.id, SubnetChanges(pools=pools))

    words = ("pools of", subnet.base, sorted(subnet.pooled), "become", *zip(firsts, lasts, strict=True))
    await _change(story, ask, _view(seen, subnet, frozenset(numbers)), words)


async def change_second(story: Story) -> None:
    """Make the second subnet of a provider, or delete it."""
    seen = await _look(story)
    first = story.random.choice([subnet for subnet in seen if subnet.base in _bases(SUBNETS)])
    base = _bases(SECOND)[_bases(SUBNETS).index(first.base)]
    subnet = next((subnet for subnet in seen if subnet.base == base), None)
    if subnet is not None:
        delete = partial(_delete, subnet.id)
        await _change(story, delete, _view(seen, subnet, None), ("delete subnet", base, f"{sorted(subnet.held)} held"))
        return
    plan = plan_subnet(f"{base}/29")
    request = SubnetRequest(
        network_id=first.network, segment_id=first.segment, name="", description="", project_id=PROJECT, ip_version=4,
        cidr=plan.cidr, gateway_ip=plan.gateway_ip, enable_dhcp=True, pools=plan.pools,
    )  # fmt: skip

    async def ask(networks: Networks) -> None:
        await subnet_service.create_subnets(networks, [request])

    await _change(story, ask, PoolsView(), ("make subnet", base))


async def _delete(subnet_id: str, networks: Networks) -> None:
    await subnet_service.delete_subnet(networks, subnet_id)


async def use_outside(story: Story) -> None:
    """Make a port with an address outside the pools."""
    addresses = [subnet.address(number) for subnet in await _look(story) for number in NUMBERS - subnet.pooled]
    if addresses:
        await users.make_port(story, story.random.choice(addresses))


def _bases(prefixes: Iterable[str]) -> list[str]:
    return [f"{prefix}.0" for prefix in prefixes]


async def _look(story: Story) -> list[SubnetSeen]:
    async with story.world.database.connection() as connection:
        rows = await connection.fetch(SEEN)
    return [
        SubnetSeen(**{key: frozenset(value) if isinstance(value, list) else value for key, value in row.items()})
        for row in rows
    ]


def _view(seen: Iterable[SubnetSeen], subnet: SubnetSeen, after: frozenset[int] | None) -> PoolsView:
    """Return what there is to see of a change. after: what the pools are to be; None where the subnet goes."""
    peers = [peer for peer in seen if peer.provider == subnet.provider]
    free = sum(len(peer.pooled - peer.held) for peer in peers)
    lost = subnet.pooled - subnet.held - (after or frozenset())
    return PoolsView(
        held=len(subnet.held) if after is None else 0,
        promised=subnet.used - sum(len(peer.claimed) for peer in peers) - subnet.leaving,
        leaving=subnet.leaving,
        lost=len(lost),
        kept=free - len(lost),
    )


async def _change(
    story: Story, ask: Callable[[Networks], Awaitable[None]], view: PoolsView, words: tuple[object, ...]
) -> None:
    """Ask for a change: it is done, or refused for what is in the way, as the naive table expects; no claim moves."""
    await errors.look_for_room(story)
    async with story.world.database.connection() as connection:
        claims = {tuple(row) for row in await connection.fetch(CLAIMS)}
    if (plan := users.draw_end(story)) is not None:
        await users.die(story, ask, plan, *words)
    else:
        expected = expect_pools(view)
        why = await find_refusal(lambda: ask(story.world.networks))
        story.note(*words, f"refused: {why.split(':')[0]}" if why else "")
        assert not why or why.startswith(SubnetInUse.__name__), why
        assert expected in (None, not why), f"{words}: {why or 'accepted'}, with {view}"
    async with story.world.database.connection() as connection:
        claims_after = {tuple(row) for row in await connection.fetch(CLAIMS)}
    assert claims <= claims_after, f"{words} moved {claims - claims_after} to {claims_after - claims}"
    await errors.look_for_room(story)


async def check_capacity(story: Story) -> None:
    """Raise AssertionError where the ledger has other capacity than the tables say, or more while it is to be told."""
    seen = await _look(story)
    for subnet in seen:
        peers = [peer for peer in seen if peer.provider == subnet.provider]
        total = sum(len(peer.pooled | peer.claimed) for peer in peers)
        reserved = sum(len(peer.pooled & peer.unclaimed) for peer in peers)
        free = sum(len(peer.pooled - peer.held) for peer in peers)
        assert subnet.due or (subnet.total, subnet.reserved) == (total, reserved), f"{total}, {reserved}: {peers}"
        claimed = sum(len(peer.claimed) for peer in peers)
        assert free == total - reserved - claimed, f"free are {free}: {peers}"
