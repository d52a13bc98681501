"""What operators' host aggregates ask of a server's host, filter by filter."""

from datetime import UTC, datetime

import pytest
from msgspec.structs import replace

from roost.compute.model.cloud import HostAggregate
from roost.scheduling.filters import (
    REQUEST_FILTERS,
    availability_zone,
    disabled_hosts,
    isolated_aggregates,
    project_aggregates,
)
from roost.scheduling.host_aggregates import NOTHING_ASKED, AggregatesAsked, IsolatedAggregate, aggregates_asked
from roost.scheduling.request import Request, build_query
from roost.scheduling.settings import SchedulingSettings
from roost.seams.compute import FlavorGroup, ForcedHost
from roost.seams.placement import Requirement

NOW = datetime(2026, 1, 1, tzinfo=UTC)
BARE = Request(resources=(("VCPU", 1),), nics=())
OFF = SchedulingSettings()
ON = SchedulingSettings(
    limit_tenants_to_placement_aggregate=True,
    placement_aggregate_required_for_tenants=True,
    enable_isolated_aggregate_filtering=True,
)
FORCED_ANYWAY = ForcedHost(name="h1", provider_uuid="p1", anyway=True)


def an_aggregate(name: str, **metadata: str) -> HostAggregate:
    spelled = {key.replace("__", ":"): value for key, value in metadata.items()}
    return HostAggregate(
        id=1, uuid=f"u-{name}", name=name, metadata=spelled, hosts=(), created_at=NOW, updated_at=NOW, of_operator=True
    )


AGGREGATES = [
    an_aggregate("east1", availability_zone="east"), an_aggregate("east2", availability_zone="east"),
    an_aggregate("west", availability_zone="west"), an_aggregate("mine", filter_tenant_id="p"),
    an_aggregate("mine2", filter_tenant_id_2="p", filter_tenant_id="q"), an_aggregate("plain", ssd="p"),
    an_aggregate("win", trait__CUSTOM_WIN="required", trait__CUSTOM_X="forbidden"),
]  # fmt: skip
WIN = IsolatedAggregate("u-win", "win", frozenset({"CUSTOM_WIN"}))


def asked_of(zone: str | None, project: str = "other") -> AggregatesAsked:
    return aggregates_asked(AGGREGATES, zone=zone, default_zone="nova", project_id=project)


@pytest.mark.parametrize(
    ("zone", "of_zone", "others"),
    [
        (None, set(), {"u-east1", "u-east2", "u-west"}), ("east", {"u-east1", "u-east2"}, {"u-west"}),
        ("west", {"u-west"}, {"u-east1", "u-east2"}), ("nova", None, {"u-east1", "u-east2", "u-west"}),
        ("gone", set(), {"u-east1", "u-east2", "u-west"}),
    ],
)  # fmt: skip
def test_a_zone_is_the_aggregates_that_name_it(zone: str | None, of_zone: set[str] | None, others: set[str]) -> None:
    asked = asked_of(zone)
    assert (asked.zone, asked.zone_aggregates, asked.other_zones) == (zone, of_zone, others)
    assert asked.isolated == (WIN,)


@pytest.mark.parametrize(("project", "uuids"), [("p", {"u-mine", "u-mine2"}), ("q", {"u-mine2"}), ("r", set())])
def test_a_projects_aggregates_are_those_that_name_it(project: str, uuids: set[str]) -> None:
    assert asked_of(None, project).project_aggregates == uuids


def narrowed_by(narrow, asked: AggregatesAsked, settings: SchedulingSettings = ON, **fields: object) -> Request:
    return narrow(replace(BARE, aggregates=asked, **fields), settings)


def test_a_server_without_a_zone_may_be_in_any() -> None:
    assert narrowed_by(availability_zone, asked_of(None)).narrowings == ()
    assert narrowed_by(availability_zone, NOTHING_ASKED).narrowings == ()


def test_a_zone_is_one_of_its_aggregates() -> None:
    request = narrowed_by(availability_zone, asked_of("east"), OFF)
    (said,) = request.narrowings
    assert (said.words, said.requirement) == ("in availability zone east", Requirement.MEMBER_OF)
    assert request.member_of == ({"u-east1", "u-east2"},)


def test_the_default_zone_is_outside_of_all_others() -> None:
    request = narrowed_by(availability_zone, asked_of("nova"), OFF)
    assert request.forbidden_aggregates == {"u-east1", "u-east2", "u-west"}
    assert build_query(request, limit=1).groups[0].forbidden_aggregates == request.forbidden_aggregates
    alone = aggregates_asked([], zone="nova", default_zone="nova", project_id="p")
    assert narrowed_by(availability_zone, alone).narrowings == ()


def test_a_zone_that_is_no_more_is_impossible() -> None:
    assert "availability zone gone has no hosts" in str(narrowed_by(availability_zone, asked_of("gone")).impossible)


def test_a_project_is_limited_to_its_aggregates_where_that_is_on_also_on_a_forced_host() -> None:
    assert narrowed_by(project_aggregates, asked_of(None, "p"), OFF).narrowings == ()
    for forced in (None, FORCED_ANYWAY):
        request = narrowed_by(project_aggregates, asked_of(None, "p"), forced_host=forced)
        assert request.member_of == ({"u-mine", "u-mine2"},)
        assert request.narrowings[0].words == "in a host aggregate of project p"


def test_a_project_that_none_names_gets_every_host_or_none() -> None:
    lenient = SchedulingSettings(limit_tenants_to_placement_aggregate=True)
    assert narrowed_by(project_aggregates, asked_of(None, "r"), lenient).impossible is None
    assert "project r has no hosts" in str(narrowed_by(project_aggregates, asked_of(None, "r")).impossible)


@pytest.mark.parametrize(
    ("fields", "forbidden"),
    [
        ({}, {"u-win"}), ({"image_traits": frozenset({"CUSTOM_WIN"})}, set()),
        ({"flavor_groups": (FlavorGroup(suffix="1", required=frozenset({"CUSTOM_WIN"})),)}, set()),
        ({"image_traits": frozenset({"CUSTOM_OTHER"})}, {"u-win"}), ({"forced_host": FORCED_ANYWAY}, set()),
    ],
)  # fmt: skip
def test_isolated_aggregates_are_for_servers_that_require_their_traits(fields: dict, forbidden: set[str]) -> None:
    assert narrowed_by(isolated_aggregates, asked_of(None), **fields).forbidden_aggregates == forbidden
    assert narrowed_by(isolated_aggregates, asked_of(None), OFF, **fields).forbidden_aggregates == set()


def test_what_is_outside_is_one_step_of_the_funnel() -> None:
    request = isolated_aggregates(narrowed_by(availability_zone, asked_of("nova")), ON)
    (said,) = request.narrowings
    assert said.words == "in availability zone nova and outside of isolated aggregates win"
    assert request.forbidden_aggregates == {"u-east1", "u-east2", "u-west", "u-win"}


def test_the_order_is_upstreams() -> None:
    order = [project_aggregates, availability_zone, disabled_hosts, isolated_aggregates]
    assert list(REQUEST_FILTERS[:4]) == order
