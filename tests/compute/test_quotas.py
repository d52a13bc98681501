"""Quotas of servers: kept to the one under any number of requests, and by every operation that could take more."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace
from tests.blocked import until_blocked

from roost.compute.errors import MetadataFull, OverQuota, QuotaTooSmall, ServerRefused
from roost.compute.model.cloud import Flavor
from roost.compute.model.server import ServerRequest
from roost.compute.rules import quotas as rules
from roost.compute.service import Compute
from roost.compute.service import servers as server_service
from roost.compute.service.events import EVENTS
from roost.compute.service.flavors import FlavorRequest, create_flavor
from roost.compute.service.quotas import QUOTAS
from roost.compute.settings import ComputeSettings
from roost.platform.events import REFUSAL, EventFilter
from roost.platform.quota_tables import EVERYBODY
from roost.platform.quotas import QuotaUsage

PROJECT, OTHER = "mine", "theirs"
SMALL = Flavor(id="s", name="small", vcpus=2, ram_mb=512, disk_gb=1)


def usages(**amounts: tuple[int, int]) -> dict[str, QuotaUsage]:
    """(used, maximum) by resource."""
    return {name: QuotaUsage(PROJECT, name, maximum, used) for name, (used, maximum) in amounts.items()}


@pytest.mark.parametrize(
    ("held", "count"),
    [
        ({"instances": (0, 10), "cores": (0, 20), "ram": (0, 51_200)}, 7),
        ({"instances": (8, 10), "cores": (0, 20), "ram": (0, 51_200)}, 2),
        ({"instances": (0, 10), "cores": (15, 20), "ram": (0, 51_200)}, 2),
        ({"instances": (0, 10), "cores": (0, 20), "ram": (0, 1000)}, 1),
        ({"instances": (10, 10), "cores": (0, -1), "ram": (0, -1)}, 0),
        ({"instances": (0, -1), "cores": (0, -1), "ram": (10**9, -1)}, 7),
    ],
)
def test_as_many_servers_fit_as_every_resource_has_room_for(held: Any, count: int) -> None:
    assert rules.count_that_fit(usages(**held), SMALL, most=7) == count


@pytest.mark.parametrize(
    ("held", "least", "most", "text"),
    [
        ({"instances": (10, 10), "cores": (0, -1)}, 1, 1,
            "instances: Requested 1, but already used 10 of 10 instances"),
        ({"instances": (9, 10), "cores": (19, 20), "ram": (100, 600)}, 2, 5,
            "cores, instances, ram: Requested 10, 2-5, 2560, but already used 19, 9, 100 of 20, 10, 600 cores, "
            "instances, ram"),
    ],
)  # fmt: skip
def test_a_refusal_is_in_novas_words(held: Any, least: int, most: int, text: str) -> None:
    assert rules.server_refusal(usages(**held), SMALL, least=least, most=most) == f"Quota exceeded for {text}"


@pytest.mark.parametrize(
    ("size", "growth", "refusal"),
    [
        ({"vcpus": 4, "ram_mb": 512}, {"cores": 2}, "cores: Requested 2, but already used 19 of 20 cores"),
        ({"vcpus": 3, "ram_mb": 1024}, {"cores": 1, "ram": 512},
            "ram: Requested 512, but already used 100 of 600 ram"),
        ({"vcpus": 3, "ram_mb": 1}, {"cores": 1}, None), ({"vcpus": 1, "ram_mb": 512}, {}, None),
    ],
)  # fmt: skip
def test_a_larger_flavor_asks_for_what_is_larger(size: Any, growth: dict[str, int], refusal: str | None) -> None:
    assert rules.growth_of(SMALL, replace(SMALL, **size)) == growth
    held = usages(instances=(30, 10), cores=(19, 20), ram=(100, 600))
    assert rules.growth_refusal(held, growth) == (refusal and f"Quota exceeded for {refusal}")
    assert rules.growth_refusal({}, growth) is None


@pytest.mark.parametrize(("maximum", "count", "fits"), [(128, 128, True), (128, 129, False), (-1, 999, True)])
def test_a_server_has_so_many_metadata_items(maximum: int, count: int, fits: bool) -> None:
    text = f"Maximum number of metadata items exceeds {maximum}"
    assert rules.metadata_refusal(maximum, count) == (None if fits else text)


def test_what_one_server_takes() -> None:
    assert rules.amounts_of(SMALL) == {"instances": 1, "cores": 2, "ram": 512}


Boot = Callable[..., Any]


@pytest.fixture
async def boot(compute: Compute) -> Boot:
    """`await boot(project, count=...)`: how many servers were accepted."""
    for name, vcpus in (("small", 2), ("large", 8)):
        await create_flavor(compute, FlavorRequest(id=name, name=name, vcpus=vcpus, ram_mb=512, disk_gb=1))

    async def accept(project_id: str = PROJECT, **more: Any) -> int:
        request = ServerRequest(**{"name": "web", "flavor_ref": "small", "nics": (), **more})
        new = await server_service.create_servers(compute, request, project_id=project_id, user_id="u")
        assert len(new.server_ids) == len(new.names) == len(new.hostnames)
        return len(new.server_ids)

    return accept


async def used(compute: Compute, project_id: str = PROJECT) -> dict[str, int]:
    """What counts of a project, without what is 0."""
    held = await QUOTAS.get_usages(compute, project_id)
    return {name: usage.used for name, usage in held.items() if usage.used}


@pytest.mark.parametrize("rounds", range(3))
async def test_of_many_at_once_exactly_those_get_in_that_fit(compute: Compute, boot: Boot, rounds: int) -> None:
    await QUOTAS.set(compute, PROJECT, {"instances": 5}, check=True)
    requests = [*(boot() for _ in range(12)), *(boot(OTHER) for _ in range(4))]
    answers = await asyncio.gather(*requests, return_exceptions=True)
    refused = [answer for answer in answers if answer != 1]
    assert len(refused) == 7
    for answer in refused:
        assert isinstance(answer, OverQuota)
        assert str(answer).startswith("Quota exceeded for instances: Requested 1, but already used 5 of 5 instances")
    assert await used(compute) == {"instances": 5, "cores": 10, "ram": 2560}
    assert await used(compute, OTHER) == {"instances": 4, "cores": 8, "ram": 2048}
    await compute.refusals.keep()
    async with compute.database.connection() as connection:
        (event,) = await EVENTS.list(connection, EventFilter(kind=REFUSAL), before=None, limit=9)
    assert (event.action, event.requirement, event.project_id, event.count) == ("boot", "quota", PROJECT, 7)
    assert event.reason == str(refused[0])


async def test_the_second_of_two_counts_what_the_first_made(compute: Compute, boot: Boot) -> None:
    await QUOTAS.set(compute, PROJECT, {"cores": 3}, check=True)
    await boot(OTHER)
    async with compute.database.transaction() as tx:
        await QUOTAS.lock(tx, [PROJECT])
        second = asyncio.create_task(boot())
        await until_blocked(compute.database, 1)
        await tx.execute("UPDATE compute.server SET project_id = $1", PROJECT)
    with pytest.raises(OverQuota, match="Requested 2, but already used 2 of 3 cores"):
        await second
    assert await used(compute) == {"instances": 1, "cores": 2, "ram": 512}


async def test_as_many_are_made_as_fit_if_they_are_enough(compute: Compute, boot: Boot) -> None:
    await QUOTAS.set(compute, PROJECT, {"instances": 5}, check=True)
    assert await boot(count=7, count_min=2) == 5
    with pytest.raises(OverQuota, match="Requested 2-7, but already used 5 of 5 instances"):
        await boot(count=7, count_min=2)
    await QUOTAS.set(compute, PROJECT, {"instances": 6}, check=True)
    assert await boot(count=7, count_min=1) == 1
    assert (await used(compute))["instances"] == 6


async def test_servers_count_until_their_rows_are_gone(compute: Compute, boot: Boot) -> None:
    await QUOTAS.set(compute, PROJECT, {"instances": 1}, check=True)
    await boot()
    async with compute.database.connection() as connection:
        server_id = await connection.fetchval("SELECT id FROM compute.server")
        await server_service.delete_server(compute, server_id)
        for change in ("status = 'ERROR'", "status = 'SHELVED_OFFLOADED', host = NULL", "deleted_at = now()"):
            await connection.execute(f"UPDATE compute.server SET {change}")
            with pytest.raises(OverQuota):
                await boot()
        await connection.execute("DELETE FROM compute.server")
    assert await boot() == 1


async def test_a_project_without_a_limit_pays_no_statement_and_one_with_a_limit_two(
    compute: Compute, boot: Boot, statements: Any
) -> None:
    making = ["compute.insert_servers", "compute.insert_work"]
    with statements() as seen:
        await boot()
        assert seen == ["compute.find_flavor_with_quotas", *making]
    await QUOTAS.set(compute, PROJECT, {"instances": 500}, check=True)
    counting = ["compute.lock_projects", "compute.count_servers_of_projects"]
    for count in (1, 100):
        with statements() as seen:
            await boot(count=count)
            assert seen == ["compute.find_flavor_with_quotas", *counting, *making]
    with statements() as seen:
        await boot(OTHER)
        assert seen == ["compute.find_flavor_with_quotas", *making]


async def test_its_own_quota_holds_then_the_class_then_the_configuration(compute: Compute, boot: Boot) -> None:
    compute.settings = ComputeSettings(quota_instances=1, quota_metadata_items=3)
    for limit in (1, 2, 3):
        if limit == 2:
            assert (await QUOTAS.set(compute, EVERYBODY, {"instances": 2}, check=False))["instances"] == 2
        if limit == 3:
            assert (await QUOTAS.set(compute, PROJECT, {"instances": 3}, check=True))["instances"] == 3
        assert await boot() == 1
        with pytest.raises(OverQuota, match=f"already used {limit} of {limit} instances"):
            await boot()
    assert (await QUOTAS.get(compute, OTHER))["instances"] == 2
    assert (await QUOTAS.get(compute, EVERYBODY))["metadata_items"] == 3
    await QUOTAS.delete(compute, PROJECT)
    with pytest.raises(OverQuota, match="already used 3 of 2 instances"):
        await boot()


async def test_projects_that_have_more_than_they_may_are_listed(compute: Compute, boot: Boot) -> None:
    await boot(count=2)
    await boot(OTHER)
    assert await QUOTAS.list_over(compute) == []
    compute.settings = ComputeSettings(quota_instances=1, quota_cores=2)
    over = [(usage.project_id, usage.resource, usage.maximum, usage.used) for usage in await QUOTAS.list_over(compute)]
    assert over == [(PROJECT, "instances", 1, 2), (PROJECT, "cores", 2, 4)]
    await QUOTAS.set(compute, PROJECT, {"instances": 2, "cores": -1}, check=True)
    assert await QUOTAS.list_over(compute) == []


async def test_a_quota_below_what_is_used_is_set_by_force_alone(compute: Compute, boot: Boot) -> None:
    await boot(count=2)
    with pytest.raises(QuotaTooSmall, match="Quota limit 3 for cores must be greater than or equal to"):
        await QUOTAS.set(compute, PROJECT, {"instances": 5, "cores": 3}, check=True)
    assert (await QUOTAS.get(compute, PROJECT))["instances"] == -1
    await QUOTAS.set(compute, PROJECT, {"cores": 3}, check=False)
    with pytest.raises(OverQuota, match="Requested 2, but already used 4 of 3 cores"):
        await boot()


async def test_metadata_of_new_servers_is_within_the_quota(compute: Compute, boot: Boot) -> None:
    await QUOTAS.set(compute, PROJECT, {"metadata_items": 2}, check=True)
    assert await boot(metadata={"a": "", "b": ""}) == 1
    with pytest.raises(MetadataFull, match="Maximum number of metadata items exceeds 2"):
        await boot(metadata={"a": "", "b": "", "c": ""})
    await boot(OTHER, metadata={str(number): "" for number in range(128)})
    with pytest.raises(MetadataFull, match="exceeds 128"):
        await boot(OTHER, metadata={str(number): "" for number in range(129)})


async def test_an_unknown_flavor_is_said_first(compute: Compute, boot: Boot) -> None:
    await QUOTAS.set(compute, PROJECT, {"instances": 0}, check=True)
    with pytest.raises(ServerRefused, match="Flavor huge could not be found"):
        await boot(flavor_ref="huge")
