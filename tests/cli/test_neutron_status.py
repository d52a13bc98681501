"""`roost-manage status neutron`: each check as a table, and the whole command beside a Neutron that says no."""

import asyncio
from typing import Any

import msgspec
import pytest
from tests.fake_neutron import FakeNeutron
from tests.placement.calls import Api
from tests.placement.nova import Nova, Segment, a_segment, clause, publish
from tests.placement.providers import a_uuid
from tests.placement.worlds import host, provider
from typer.testing import CliRunner

from roost.cli.manage import app
from roost.cli.managing.check_report import FAILURE, READY, WARNING
from roost.cli.managing.neutron_status import list_checks
from roost.placement.rules.neutron_sight import Sight
from roost.placement.search.index import Delta, Index
from roost.placement.search.topology import list_hosts_on_two_segments, list_segments_without_hosts
from roost.placement.service.ledger import Ledger, sync_standard_names
from roost.placement.service.neutron import run_round
from roost.placement.service.neutron_status import NeutronStatus, keep_searches_seen
from roost.placement.service.neutron_view import NeutronView
from roost.placement.settings import PlacementSettings
from roost.platform.database import Database
from roost.seams.placement import IPV4_ADDRESS, Inventory

SIGHT = Sight(user="the user roost with the role admin", segments=3, subnets_on_segments=3, subnets_elsewhere=2)
WELL = NeutronStatus(sight=SIGHT, rounds=SIGHT, round_age_s=2.0, searches_age_s={True: 7.0})


def changed(**members: Any) -> NeutronStatus:
    return msgspec.structs.replace(WELL, **members)


def sight(**members: Any) -> Sight:
    return msgspec.structs.replace(SIGHT, **members)


@pytest.mark.parametrize(
    ("status", "name", "result", "says"),
    [
        pytest.param(WELL, "Neutron and its rights", READY, "shows the user roost with the role admin", id="well"),
        pytest.param(
            changed(fault="Neutron hides it"), "Neutron and its rights", FAILURE, "Neutron hides it", id="hidden"
        ),
        pytest.param(
            changed(sight=sight(may_count=False)), "Neutron's own count", WARNING, "Nothing is given back", id="count"
        ),
        pytest.param(changed(sight=sight(segments=0)), "segments", FAILURE, "shows no segment", id="no segments"),
        pytest.param(
            changed(sight=sight(segments_unpublished=("a", "b"))),
            "segments",
            FAILURE,
            "not told Placement of a, b",
            id="unpublished",
        ),
        pytest.param(
            changed(sight=sight(subnets_of_others={"s": "it is for network:floatingip"})),
            "subnets",
            READY,
            "No room for servers: s (it is for network:floatingip).",
            id="service subnets",
        ),
        pytest.param(
            changed(sight=sight(networks_uncounted={f"n{number}": "why" for number in range(7)})),
            "networks",
            WARNING,
            "n4 (why) and 2 more",
            id="networks that are not counted",
        ),
        pytest.param(changed(segments_without_hosts=["s"]), "hosts of segments", FAILURE, "is on s", id="no hosts"),
        pytest.param(
            changed(hosts_on_two_segments=[("h", "n")]), "one segment a host", WARNING, "h (network n)", id="two"
        ),
        pytest.param(changed(round_age_s=None), "rounds", FAILURE, "No round has counted anything", id="no round"),
        pytest.param(changed(round_age_s=61.0), "rounds", FAILURE, "ended 61 s ago", id="an old round"),
        pytest.param(
            changed(rounds=sight(segments_unbelieved=("s",))), "rounds", WARNING, "on 1 segments", id="unbelieved"
        ),
        pytest.param(changed(differences=2), "differences", WARNING, "2 differences", id="differences"),
        pytest.param(changed(searches_age_s={False: 3.0}), "Nova's filter", WARNING, "No search has named", id="off"),
        pytest.param(changed(searches_age_s={}), "Nova's filter", WARNING, "No search has come yet", id="no search"),
    ],
)
def test_each_check_says_what_is_in_the_way(status: NeutronStatus, name: str, result: int, says: str) -> None:
    checks = {check.name: check for check in list_checks(status, implied_addresses=True)}
    assert (checks[name].result, says in checks[name].details) == (result, True), checks[name]
    others = {check.result for check in checks.values() if check.name != name}
    assert others <= ({READY} if not status.fault else {READY, WARNING})


def test_a_round_is_late_by_how_far_apart_rounds_are() -> None:
    status = changed(round_age_s=500.0)
    results = {check.name: check.result for check in list_checks(status, implied_addresses=True, late_s=600.0)}
    assert results["rounds"] == READY


def test_servers_that_claim_no_addresses_are_a_failure() -> None:
    assert [check.name for check in list_checks(WELL, implied_addresses=False) if check.result == FAILURE] == [
        "claims of servers"
    ]


def test_segments_without_hosts_and_hosts_on_two_segments_are_found() -> None:
    def segment(number: int, *aggregates: str, network: str) -> Any:
        return provider(
            number, totals={IPV4_ADDRESS: Inventory(9)}, placement_aggregates=frozenset(aggregates), network_id=network
        )

    index = Index()
    rows = [
        host(1, "a"), host(2, "a", "b"), host(3, "c"), segment(11, "a", network="N"), segment(12, "b", network="N"),
        segment(13, "c", network="M"), segment(14, "d", network="M"), segment(15, network="K"),
    ]  # fmt: skip
    index.apply(Delta(providers=rows))
    assert list_segments_without_hosts(index) == sorted(row.uuid for row in rows[-2:])
    assert list_hosts_on_two_segments(index) == [(rows[1].name, "N")]


async def test_the_command_goes_from_failure_to_ready(
    database: Database, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = Ledger(database, settings=PlacementSettings(implied_addresses=True))
    await sync_standard_names(ledger)
    segment: Segment = a_segment(5, 1)
    await publish(ledger, segment)
    neutron = FakeNeutron()
    neutron.add_network({segment.uuid: 5})
    neutron.add_port(segment.uuid, a_uuid())
    monkeypatch.setattr("roost.cli.manage.configure_logging", lambda _program: None)

    async def results() -> tuple[int, dict[str, str]]:
        done = await asyncio.to_thread(CliRunner().invoke, app, ["status", "neutron", "--database", dsn, "--json"])
        checks = msgspec.json.decode(done.stdout.splitlines()[-1])["checks"]
        return done.exit_code, {check["name"]: check["result"] for check in checks if check["result"] != "ready"}

    async with neutron.serve():
        monkeypatch.setenv("ROOST_NEUTRON_URL", neutron.url)
        monkeypatch.setenv("ROOST_PLACEMENT_IMPLIED_ADDRESSES", "true")
        assert await results() == (2, {"rounds": "failure", "differences": "warning", "Nova's filter": "warning"})
        await run_round(ledger, neutron, NeutronView())
        ledger.neutron = neutron
        assert len(await Nova(Api(ledger)).boot(1, clause(segment))) == 1
        await keep_searches_seen(ledger)
        assert await results() == (0, {})
        neutron.is_down = True
        status, not_ready = await results()
        assert (status, not_ready) == (2, {"Neutron and its rights": "failure", "differences": "warning"})
