"""Why a host is closed and what opens it; which hosts are in which group; what they have free together."""

from datetime import UTC, datetime
from typing import Any

import pytest
from msgspec.structs import replace
from tests.seeing.test_capacity import BIG, racks

from roost.compute.model.cloud import Host, HostAggregate
from roost.seams.placement import VCPU
from roost.seeing.rules.closed_hosts import how_to_open, why_closed
from roost.seeing.rules.cloud_table import make_table
from roost.seeing.rules.host_groups import HostGroups, group_hosts


def a_host(**state: Any) -> Host:
    shape = {"vcpus": 1, "ram_mb": 1, "disk_gb": 1, "physical_networks": (), "cell": "cell1", "declared": True}
    rest = {"disabled": False, "disabled_reason": None, "forced_down": False, "service_version": 3, "seen_at": None}
    return Host(**{"id": 1, "name": "h1", "provider_uuid": "u1", **shape, **rest, **state})


@pytest.mark.parametrize(
    ("state", "why", "remedy"),
    [
        ({"disabled": True, "waiting": True}, "waits to be accepted", "accept host h1 (roost-manage host accept)"),
        ({"disabled": True}, "disabled", "enable host h1"),
        ({"disabled": True, "disabled_reason": "fan"}, "disabled (fan)", "enable host h1"),
        ({"forced_down": True, "down": True}, "forced down", "set forced_down of host h1 to false"),
        ({"down": True}, "down", "start the agent of host h1"),
        ({"cell_silent": True}, "in cell cell1, whose conductors are gone", "start a conductor of cell cell1"),
        ({"too_old": True}, "with too old an agent", "update the agent of host h1"),
        ({"idle": True}, "idle: it began no launch", "look why the agent of host h1 begins no launch"),
        ({}, "closed", "open host h1"),
    ],
)
def test_each_state_has_its_word_and_its_remedy(state: dict[str, Any], why: str, remedy: str) -> None:
    assert (why_closed(a_host(**state)), how_to_open(a_host(**state), "h1")) == (why, remedy)


def test_a_provider_that_is_no_host_of_roosts_is_closed() -> None:
    assert (why_closed(None), how_to_open(None, "x")) == ("closed", "open host x")


def an_aggregate(name: str, *hosts: str, zone: str | None = None, of_operator: bool = True) -> HostAggregate:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    metadata = {} if zone is None else {"availability_zone": zone}
    rest = {"created_at": at, "updated_at": at, "of_operator": of_operator}
    return HostAggregate(id=1, uuid=name, name=name, metadata=metadata, hosts=hosts, **rest)


def test_hosts_are_grouped_by_zone_and_by_operators_aggregates() -> None:
    groups = group_hosts(
        racks(1, 1).index(),
        [
            an_aggregate("a", "r0-h0", "gone", zone="az1"),
            an_aggregate("b", "r0-h1", zone="az1"),
            an_aggregate("segment", "r0-h0", of_operator=False),
        ],
        default_zone="nova",
    )
    assert groups.zones == {"az1": {"r0-h0", "r0-h1"}, "nova": {"r1-h0", "r1-h1"}}
    assert groups.aggregates == {"a": {"r0-h0"}, "b": {"r0-h1"}}


def test_the_table_counts_open_hosts_and_tells_what_is_stranded() -> None:
    cloud = racks(0, 9, hosts=1)
    cloud.add_host("closed", "a-rack1", open=False, VCPU=64, **BIG)
    busy = cloud.providers["r1-h0"]
    cloud.providers["r1-h0"] = replace(busy, used={**busy.used, VCPU: 4})
    table = make_table(cloud.index(), list(cloud.networks.values()), HostGroups({"z": frozenset({"closed"})}, {}))
    assert (table.total.hosts, table.total.open, table.total.vcpus, table.total.vcpus_free) == (3, 2, 8, 4)
    rows = [(s.segment, s.addresses_free, s.vcpus_stranded, s.addresses_stranded) for s in table.segments]
    assert rows == [("rack0", 0, 4, 0), ("rack1", 9, 0, 9)]
    assert [(line.name, line.room.hosts, line.room.open) for line in table.zones] == [("z", 1, 0)]
