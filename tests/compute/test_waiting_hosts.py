"""Hosts that nobody declared: what an agent with a token may register, and that they wait for an operator."""

import asyncio

import pytest
from msgspec.structs import replace
from tests.agent.cloud import AGENT

from roost.compute.errors import NoHostWaiting, TooManyWaitingHosts
from roost.compute.model.cloud import Host, KnownHosts
from roost.compute.model.work import LOCAL_CREDENTIALS
from roost.compute.rules.agent_tokens import EVERY_HOST, HostPatterns
from roost.compute.rules.waiting_hosts import check_reports
from roost.compute.service import Compute, cells
from roost.compute.service import hosts as service
from roost.compute.service.waiting_hosts import accept_hosts
from roost.compute.settings import ComputeSettings
from roost.platform.errors import BadRequest
from roost.seams.agent import HostReport
from roost.seams.placement import DISABLED

TOKEN = HostPatterns(("rack1-*",))
HOST = HostReport(name="rack1-h1", vcpus=4, ram_mb=4096, disk_gb=40, physical_networks=("rack1",))
NOBODY = KnownHosts(frozenset(), frozenset(), frozenset())


def known(*, names: str = "", waiting: str = "", cells: str = "") -> KnownHosts:
    return KnownHosts(frozenset(names.split()), frozenset(waiting.split()), frozenset(cells.split()))


@pytest.mark.parametrize(
    ("report", "hosts_known", "flaw"),
    [
        (HOST, NOBODY, None),
        (replace(HOST, vcpus=65_536, ram_mb=2**27, disk_gb=2**24), NOBODY, None),
        (replace(HOST, vcpus=65_537), NOBODY, "host rack1-h1: 65537 VCPUs, expected at most 65536"),
        (replace(HOST, ram_mb=2**27 + 1), NOBODY, "134217729 MB of memory, expected at most 134217728"),
        (replace(HOST, disk_gb=2**24 + 1), NOBODY, "16777217 GB of disk, expected at most 16777216"),
        (replace(HOST, physical_networks=("p",) * 64), NOBODY, None),
        (replace(HOST, physical_networks=("p",) * 65), NOBODY, "65 physical networks, expected at most 64"),
        (replace(HOST, cell="east"), NOBODY, "there is no cell east: expected cell1, or one that a conductor serves"),
        (replace(HOST, cell="east"), known(cells="east"), None),
    ],
)
def test_sizes_and_cells_are_checked(report: HostReport, hosts_known: KnownHosts, flaw: str | None) -> None:
    if flaw is None:
        return check_reports([report], hosts_known, covered=TOKEN, waiting_hosts_max=10)
    with pytest.raises(BadRequest) as error:
        check_reports([report], hosts_known, covered=TOKEN, waiting_hosts_max=10)
    assert flaw in str(error.value)


@pytest.mark.parametrize(
    ("names", "hosts_known", "is_refused"),
    [
        ("rack1-h1 rack1-h2", NOBODY, False),
        ("rack1-h1 rack1-h2 rack1-h3", NOBODY, True),
        ("rack1-h1 rack1-h1 rack1-h2", NOBODY, False),
        ("rack1-h1 rack1-h2 rack1-h3", known(names="rack1-h3"), False),
        ("rack1-h3", known(waiting="rack1-h1 rack1-h2"), True),
        ("rack1-h3", known(waiting="rack1-h1 rack2-h2"), False),
        ("rack1-h1", known(names="rack1-h1", waiting="rack1-h1 rack1-h2 rack1-h3"), False),
    ],
)
def test_so_many_hosts_of_a_token_may_wait(names: str, hosts_known: KnownHosts, is_refused: bool) -> None:
    reports = [replace(HOST, name=name) for name in names.split()]
    if not is_refused:
        return check_reports(reports, hosts_known, covered=TOKEN, waiting_hosts_max=2)
    with pytest.raises(TooManyWaitingHosts):
        check_reports(reports, hosts_known, covered=TOKEN, waiting_hosts_max=2)


async def register(compute: Compute, *names: str, covered: HostPatterns = TOKEN, cell: str = "cell1") -> list[Host]:
    reports = [replace(HOST, name=name, cell=cell) for name in names]
    return await service.register_hosts(compute, reports, agent=AGENT, covered=covered)


async def closed(compute: Compute) -> set[str]:
    """Return the hosts that the ledger gives no server."""
    hosts = await service.list_hosts(compute, None)
    providers = await compute.placement.get_providers([host.provider_uuid for host in hosts])
    return {host.name for host in hosts if DISABLED in (providers[host.provider_uuid].traits or ())}


async def waiting(compute: Compute) -> set[str]:
    return {host.name for host in await service.list_hosts(compute) if host.waiting}


async def test_a_host_that_nobody_declared_waits_until_it_is_accepted(compute: Compute) -> None:
    (host,) = await register(compute, "rack1-h1")
    assert (host.waiting, host.disabled) == (True, True)
    assert host.disabled_reason is not None
    assert await closed(compute) == {"rack1-h1"}
    await register(compute, "rack1-h1", "rack1-h2")
    assert [host.name for host in await accept_hosts(compute, ["*-h1"])] == ["rack1-h1"]
    assert (await closed(compute), await waiting(compute)) == ({"rack1-h2"}, {"rack1-h2"})
    await register(compute, "rack1-h1")
    assert await waiting(compute) == {"rack1-h2"}, "who is accepted stays so"


async def test_without_tokens_nobody_waits(compute: Compute) -> None:
    await register(compute, "rack1-h1", covered=EVERY_HOST)
    assert (await closed(compute), await waiting(compute)) == (set(), set())


async def test_a_token_for_all_hosts_is_a_token(compute: Compute) -> None:
    await register(compute, "h1", covered=HostPatterns(("*",)))
    assert await waiting(compute) == {"h1"}


async def test_who_declares_or_enables_a_host_has_accepted_it(compute: Compute) -> None:
    await register(compute, "rack1-h1", "rack1-h2", "rack1-h3")
    await service.register_hosts(compute, [HOST], agent=None)
    await service.enable_host(compute, "rack1-h2")
    await service.disable_host(compute, "rack1-h3", reason="to be looked at")
    assert (await closed(compute), await waiting(compute)) == ({"rack1-h3"}, {"rack1-h3"})
    (declared, enabled, _) = await service.list_hosts(compute)
    assert (declared.disabled_reason, enabled.disabled_reason) == (None, None)


async def test_a_host_that_an_operator_disabled_stays_so_when_it_is_declared(compute: Compute) -> None:
    await register(compute, "rack1-h1", covered=EVERY_HOST)
    await service.disable_host(compute, "rack1-h1", reason="broken")
    (host,) = await service.register_hosts(compute, [HOST], agent=None)
    assert (host.disabled, host.disabled_reason) == (True, "broken")


async def test_a_declared_host_has_nobody_to_wait_for(compute: Compute) -> None:
    await service.register_hosts(compute, [HOST], agent=None)
    await register(compute, "rack1-h1")
    assert await waiting(compute) == set()


async def test_a_pattern_that_fits_no_waiting_host_accepts_nothing(compute: Compute) -> None:
    await register(compute, "rack1-h1")
    with pytest.raises(NoHostWaiting, match="called rack2-"):
        await accept_hosts(compute, ["rack1-*", "rack2-*"])
    assert await waiting(compute) == {"rack1-h1"}


async def test_a_cell_is_one_that_a_conductor_or_an_accepted_host_is_of(compute: Compute) -> None:
    with pytest.raises(BadRequest, match="there is no cell east"):
        await register(compute, "rack1-h1", cell="east")
    await cells.beat(compute, compute.env.new_uuid(), ["east"], LOCAL_CREDENTIALS)
    await register(compute, "rack1-h1", cell="east")
    await service.register_hosts(compute, [replace(HOST, name="h2", cell="west")], agent=None)
    await register(compute, "rack1-h2", cell="west")


async def test_one_host_too_many_leaves_all_as_it_was(compute: Compute) -> None:
    compute.settings = ComputeSettings(waiting_hosts_max=2)
    await register(compute, "rack1-h1")
    with pytest.raises(TooManyWaitingHosts, match="1 hosts that this token is for wait"):
        await register(compute, "rack1-h2", "rack1-h3")
    assert await waiting(compute) == {"rack1-h1"}
    await accept_hosts(compute, ["*"])
    await register(compute, "rack1-h2", "rack1-h3")


async def test_agents_that_register_at_once_are_counted_together(compute: Compute) -> None:
    compute.settings = ComputeSettings(waiting_hosts_max=2)
    calls = [register(compute, f"rack1-h{number}", f"rack1-x{number}") for number in range(4)]
    answers = await asyncio.gather(*calls, return_exceptions=True)
    assert [type(answer) for answer in answers].count(TooManyWaitingHosts) == 3, answers
    assert len(await waiting(compute)) == 2
