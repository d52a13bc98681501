"""What may change of host aggregates, and what follows from them, as tables."""

from datetime import UTC, datetime
from typing import Any

import pytest

from roost.compute.model.cloud import HostAggregate
from roost.compute.rules.aggregates import (
    list_zones,
    metadata_problem,
    protected_sentence,
    ratios_by_host,
    refuse_host_added,
    refuse_host_removed,
    refuse_zone_change,
    zone_of,
    zones_by_host,
)

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def an_aggregate(number: int = 1, *hosts: str, of_operator: bool = True, **metadata: str) -> HostAggregate:
    uuid = f"00000000-0000-0000-0000-{number:012}"
    return HostAggregate(
        id=number, uuid=uuid, name=f"a{number}", metadata=metadata, hosts=hosts, created_at=NOW, updated_at=NOW,
        of_operator=of_operator,
    )  # fmt: skip


EAST, WEST = (an_aggregate(1, "h1", availability_zone="east"), an_aggregate(2, "h2", availability_zone="west"))
PLAIN = an_aggregate(3, "h1", "h3", ssd="true")


def test_zones_follow_from_the_aggregates_that_name_one() -> None:
    assert zone_of([PLAIN, EAST], default="nova") == "east"
    assert zone_of([PLAIN], default="nova") == "nova"
    assert zones_by_host([EAST, WEST, PLAIN]) == {"h1": "east", "h2": "west"}
    assert list_zones([WEST, EAST, PLAIN], default="nova") == {
        "east": frozenset(["h1"]), "nova": frozenset(), "west": frozenset(["h2"])
    }  # fmt: skip


def test_the_smallest_ratio_of_a_hosts_aggregates_counts() -> None:
    aggregates = [
        an_aggregate(1, "h1", "h2", cpu_allocation_ratio="4.0"),
        an_aggregate(2, "h2", cpu_allocation_ratio="2", ram_allocation_ratio="1.5"),
    ]
    assert ratios_by_host(["h1", "h2", "h3"], aggregates) == {
        "h1": {"VCPU": 4.0}, "h2": {"VCPU": 2.0, "MEMORY_MB": 1.5}, "h3": {}
    }  # fmt: skip


@pytest.mark.parametrize(
    ("metadata", "part"),
    [
        ({}, None), ({"availability_zone": "east"}, None), ({"availability_zone": None}, None), ({"ssd": "x"}, None),
        ({"availability_zone": ""}, "availability_zone ''"), ({"availability_zone": " "}, "expected 1 to 255"),
        ({"availability_zone": "a:b"}, "a colon"), ({"availability_zone": "x" * 256}, "expected 1 to 255"),
        ({"cpu_allocation_ratio": "1.5"}, None), ({"cpu_allocation_ratio": None}, None),
        ({"cpu_allocation_ratio": "0"}, "above 0"), ({"ram_allocation_ratio": "nan"}, "above 0"),
        ({"disk_allocation_ratio": "much"}, "disk_allocation_ratio 'much'"),
    ],
)  # fmt: skip
def test_metadata_that_cannot_be_is_named(metadata: Any, part: str | None) -> None:
    problem = metadata_problem(metadata)
    assert (problem is None) if part is None else part in str(problem)


def test_the_network_services_aggregates_are_protected() -> None:
    assert protected_sentence(EAST) is None
    assert "network service keeps it" in str(protected_sentence(an_aggregate(of_operator=False)))


@pytest.mark.parametrize(
    ("into", "others", "servers", "part"),
    [
        (EAST, [], 0, None), (EAST, [PLAIN], 0, None), (PLAIN, [WEST], 5, None),
        (EAST, [WEST], 0, "already in availability zone(s) ['west']"),
        (EAST, [], 2, "would change from nova to east, and it has 2 servers"),
        (an_aggregate(7, availability_zone="nova"), [], 2, None),
        (an_aggregate(7, availability_zone="west"), [WEST], 1, None),
    ],
)  # fmt: skip
def test_a_host_is_in_one_zone_which_its_servers_do_not_leave(
    into: HostAggregate, others: list[HostAggregate], servers: int, part: str | None
) -> None:
    refusal = refuse_host_added(into, "h9", others, servers, default="nova")
    assert (refusal is None) if part is None else part in str(refusal)


@pytest.mark.parametrize(
    ("out_of", "others", "servers", "part"),
    [
        (EAST, [], 0, None), (PLAIN, [], 3, None), (EAST, [an_aggregate(8, availability_zone="east")], 3, None),
        (EAST, [PLAIN], 1, "would change from east to nova, and it has 1 server."),
    ],
)  # fmt: skip
def test_a_host_leaves_a_zone_without_servers(
    out_of: HostAggregate, others: list[HostAggregate], servers: int, part: str | None
) -> None:
    refusal = refuse_host_removed(out_of, "h1", others, servers, default="nova")
    assert (refusal is None) if part is None else part in str(refusal)


@pytest.mark.parametrize(
    ("aggregate", "zone", "others", "servers", "part"),
    [
        (EAST, "east", {"h1": [WEST]}, {"h1": 3}, None), (EAST, "north", {"h1": []}, {}, None),
        (EAST, "north", {"h1": []}, {"h1": 1}, "contain instances"), (EAST, None, {"h1": []}, {"h1": 1}, "contain"),
        (PLAIN, "west", {"h1": [EAST], "h3": []}, {}, "already in availability zone(s) ['east']"),
        (PLAIN, "east", {"h1": [EAST], "h3": []}, {"h1": 1}, None),
        (PLAIN, "east", {"h1": [EAST], "h3": []}, {"h3": 1}, "contain instances"),
        (PLAIN, "nova", {"h3": []}, {"h3": 1}, None), (EAST, None, {"h1": []}, {}, None),
    ],
)  # fmt: skip
def test_a_zone_changes_only_where_no_server_is(
    aggregate: HostAggregate, zone: str | None, others: Any, servers: Any, part: str | None
) -> None:
    refusal = refuse_zone_change(aggregate, zone, others, servers, default="nova")
    assert (refusal is None) if part is None else part in str(refusal)
