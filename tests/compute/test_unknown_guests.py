"""Unknown guests: which of them hold their addresses, and that every list says so anew."""

from datetime import UTC, datetime
from typing import Any

import pytest
from tests.agent.cloud import AGENT, compute_of, take_leases
from tests.compute.reporting import report

from roost.compute.errors import GuestNotFound, GuestWanted
from roost.compute.model.unknown_guests import UnknownGuest
from roost.compute.rules.drift import ADDRESS_TWICE, GUEST_UNKNOWN
from roost.compute.rules.unknown_guests import (
    HOLDING_MAX,
    by_key,
    choose_holding,
    describe_addresses,
    kept_of,
    with_nics,
)
from roost.compute.service import Compute
from roost.compute.service.audit import GUESTS
from roost.compute.service.guests import compare_guests
from roost.compute.service.hosts import register_hosts
from roost.compute.service.unknown_guests import (
    count_unknown_guests,
    destroy_unknown_guest,
    hold_round,
    list_unknown_guests,
)
from roost.platform.database import Database
from roost.platform.drift import Repairs
from roost.platform.errors import DatabaseUnavailable
from roost.seams.agent import GuestAttempt, GuestNic, GuestReport, GuestsBody, HostReport, ListedGuest
from roost.seams.unknown_guests import AddressHolder, HeldAddresses, ListedNic

SERVER = "11111111-1111-1111-1111-111111111111"
SINCE = datetime(2026, 1, 2, tzinfo=UTC)


def listed(number: int = 1, *addresses: str, host: str = "h1", attempt: int = 1, **more: Any) -> ListedGuest:
    nics = (GuestNic(mac_address=f"fa:16:3e:00:00:{number:02x}", addresses=addresses),) if addresses else ()
    fields: dict[str, Any] = {"state": "running", "nics": nics, **more}
    return ListedGuest(server_id=f"{number:08x}-1111-1111-1111-111111111111", host=host, attempt=attempt, **fields)


def unknown(number: int = 1, *addresses: str, vcpus: int = 4, host: str = "h1", said: bool = True) -> UnknownGuest:
    guest = listed(number, *addresses, host=host)
    return UnknownGuest(
        server_id=guest.server_id, host=host, attempt=1, listed_at=SINCE, listed=guest if said else None, vcpus=vcpus
    )


# Rules.


@pytest.mark.parametrize(("vcpus", "bound"), [(0, 0), (3, 3), (63, 63), (64, 64), (1000, 64)])
def test_no_host_holds_for_more_guests_than_it_has_vcpus_and_never_for_more_than_64(vcpus: int, bound: int) -> None:
    assert HOLDING_MAX == 64
    guests = [unknown(number, vcpus=vcpus) for number in range(1, 81)]
    chosen = choose_holding(guests)
    assert (chosen.holding, chosen.over_bound) == (tuple(guests[:bound]), tuple(guests[bound:]))


def test_bounds_are_of_each_host_and_guests_of_older_agents_are_only_named() -> None:
    here, there, older = unknown(1, vcpus=1), unknown(2, vcpus=1, host="h2"), unknown(3, vcpus=1, said=False)
    chosen = choose_holding([older, here, there])
    assert (chosen.holding, chosen.over_bound, chosen.silent) == ((here, there), (), (older,))


def test_what_is_kept_of_a_list_does_not_change_with_other_guests_of_the_host() -> None:
    assert kept_of(listed(sequence=7)) == listed()
    assert kept_of(listed(state=None)) is None
    assert kept_of(GuestAttempt(server_id=SERVER, host="h1", attempt=1)) is None


def test_the_network_service_is_told_of_nics_alone() -> None:
    guest = with_nics(unknown(1, "10.0.0.2"))
    assert guest.nics == (ListedNic(mac_address="fa:16:3e:00:00:01", addresses=("10.0.0.2",)),)


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        (None, "it has no address"),
        ({}, "it has no address"),
        ({"addresses_held": ("10.0.0.2",)}, "10.0.0.2 is held"),
        (
            {"addresses_held": ("10.0.0.2", "10.0.0.3"), "free": ("10.0.0.4",)},
            "10.0.0.2 and 10.0.0.3 are held, 10.0.0.4 is not",
        ),
        (
            {"used": (AddressHolder(address="10.0.0.2", port_id="p", server_id=SERVER, host="h2"),)},
            "10.0.0.2 is another's too",
        ),
        ({"unknown": ("10.9.0.2",)}, "10.9.0.2 is of no subnet that its host reaches"),
    ],
)
def test_a_sentence_says_what_is_held(answer: dict[str, Any] | None, sentence: str) -> None:
    guest = unknown(1, "10.0.0.2")
    held = None if answer is None else HeldAddresses(server_id=guest.server_id, host="h1", **answer)
    assert describe_addresses(guest, choose_holding([guest]), held).startswith(sentence)
    assert held is None or by_key([held]) == {(guest.server_id, "h1"): held}


def test_a_sentence_says_why_nothing_is_held() -> None:
    older, over = unknown(1, said=False), unknown(2, vcpus=0)
    chosen = choose_holding([older, over])
    assert describe_addresses(older, chosen, None) == "its agent does not say its addresses, so none is held"
    assert "0 unknown guests of its host hold theirs, and that is the bound" in describe_addresses(over, chosen, None)


# The service.


class NetworkStub:
    """What a network service is told; broken: what it raises."""

    def __init__(self, compute: Compute) -> None:
        self.told: list[dict[str, list[str]]] = []
        self.broken: Exception | None = None
        self.holding: set[str] = set()
        compute.network = self  # type: ignore[assignment]

    async def set_hosts(self, *_arguments: Any, **_more: Any) -> None:
        pass

    async def hold_addresses(self, guests_by_host: Any, *, as_of: float) -> list[HeldAddresses]:
        if self.broken:
            raise self.broken
        assert as_of > 0
        self.told.append({host: [guest.server_id for guest in guests] for host, guests in guests_by_host.items()})
        self.holding = {host for host, guests in guests_by_host.items() if guests}
        return []

    async def list_held_addresses(self, guests: Any) -> list[HeldAddresses]:
        holder = AddressHolder(address="10.0.0.3", port_id="p", server_id=SERVER, host="h2")
        return [
            HeldAddresses(server_id=guest.server_id, host=guest.host, addresses_held=("10.0.0.2",), used=(holder,))
            for guest in guests
        ]

    async def list_holding_hosts(self) -> set[str]:
        return set(self.holding)


@pytest.fixture
async def service(database: Database) -> Compute:
    """A host with two VCPUs, which AGENT serves."""
    compute = compute_of(database)
    host = HostReport(name="h1", vcpus=2, ram_mb=1024, disk_gb=10)
    await register_hosts(compute, [host], agent=AGENT)
    await take_leases(compute, ["h1"], AGENT)
    return compute


@pytest.fixture
def network(service: Compute) -> NetworkStub:
    return NetworkStub(service)


async def send(compute: Compute, *guests: ListedGuest) -> list[GuestAttempt]:
    return await compare_guests(compute, GuestsBody(agent=AGENT, guests=guests, as_of=2e9))


async def test_a_list_that_changes_what_a_host_has_is_told_at_once_and_one_that_does_not_is_not(
    service: Compute, network: NetworkStub
) -> None:
    first, second = listed(1, "10.0.0.2"), listed(2, "10.0.0.3")
    await send(service, first)
    await send(service, first, second)
    await send(service, listed(1, "10.0.0.2", sequence=9), second)
    await send(service, listed(1, "10.0.0.9"), second)
    await send(service, second)
    await send(service)
    assert network.told == [
        {"h1": [first.server_id]},
        {"h1": [first.server_id, second.server_id]},
        {"h1": [first.server_id, second.server_id]},
        {"h1": [second.server_id]},
        {"h1": []},
    ]


async def test_a_list_is_taken_while_the_network_service_is_away_and_a_round_tells_it(
    service: Compute, network: NetworkStub
) -> None:
    network.broken = DatabaseUnavailable("away")
    await send(service, listed(1, "10.0.0.2"))
    network.broken = None
    await hold_round(service)
    assert network.told == [{"h1": [listed(1).server_id]}]


async def test_a_round_tells_of_hosts_whose_unknown_guests_are_gone_too(service: Compute, network: NetworkStub) -> None:
    await hold_round(service)
    network.holding = {"h1", "gone"}
    await hold_round(service)
    assert network.told == [{"gone": [], "h1": []}]


async def test_guests_that_come_later_take_nothing_from_those_that_hold(service: Compute, network: NetworkStub) -> None:
    for guests in ([7], [7, 5], [3, 5, 7]):
        await send(service, *(listed(number, "10.0.0.2") for number in guests))
    assert network.told[-1] == {"h1": [listed(7).server_id, listed(5).server_id]}
    assert await count_unknown_guests(service) == {"held": 2, "over_bound": 1, "unsaid": 0}


async def test_the_audit_says_what_is_held_and_names_what_is_used_twice(service: Compute, network: NetworkStub) -> None:
    await send(service, listed(1, "10.0.0.2", "10.0.0.3"))
    drifts = await GUESTS.run(service, repairs=Repairs.NONE)
    assert [(drift.kind, drift.key) for drift in drifts] == [
        (GUEST_UNKNOWN, listed(1).server_id), (ADDRESS_TWICE, "10.0.0.3"),
    ]  # fmt: skip
    assert drifts[0].says == "host h1 has it, made by attempt 1; 10.0.0.2 is held, 10.0.0.3 is another's too"
    assert listed(1).server_id in drifts[1].says
    assert SERVER in drifts[1].says


async def test_a_guest_that_is_destroyed_holds_its_addresses_until_its_host_says_that_it_is_gone(
    service: Compute, network: NetworkStub
) -> None:
    guest = listed(1, "10.0.0.2")
    await send(service, guest)
    await destroy_unknown_guest(service, guest.server_id, "h1")
    await send(service, guest)
    await hold_round(service)
    assert network.told[-1] == {"h1": [guest.server_id]}
    (shown,), _, _ = await list_unknown_guests(service)
    assert shown.destroying
    assert [drift.kind for drift in await GUESTS.run(service, repairs=Repairs.NONE)] == [ADDRESS_TWICE]
    gone = GuestReport(server_id=guest.server_id, host="h1", attempt=1, state="absent")
    (answer,) = await report(service, [gone], agent=AGENT)
    assert answer.accepted
    await hold_round(service)
    assert network.told[-1] == {"h1": []}
    assert await list_unknown_guests(service) == ([], choose_holding([]), {})


async def test_only_unknown_guests_are_destroyed(service: Compute, network: NetworkStub) -> None:
    with pytest.raises(GuestNotFound):
        await destroy_unknown_guest(service, SERVER, "h1")
    guest = listed(1, "10.0.0.2", attempt=3)
    await send(service, guest)
    async with service.database.transaction() as tx:
        await tx.execute(
            "INSERT INTO compute.guest (server_id, host, attempt, desired) VALUES ($1, 'h1', 2, 'running')",
            guest.server_id,
        )
    with pytest.raises(GuestWanted):
        await destroy_unknown_guest(service, guest.server_id, "h1")
