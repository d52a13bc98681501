"""Boots and rebuilds from images that an image service keeps: what is asked, refused, and kept with the server."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from msgspec.structs import replace
from tests.agent.cloud import AGENT
from tests.compute.test_actions import guest_of, make_server
from tests.fake_glance import FakeGlance, a_glance

from roost.compute.service import Compute
from roost.compute.service.guests import Polls
from roost.compute.service.hosts import provider_uuid_of
from roost.compute.service.servers import get_server
from roost.platform.auth import Caller
from roost.platform.database import Database
from roost.seams.guests import GuestImage
from roost.seams.placement import Claimed, ClaimGroup, ConsumerClaim, ProviderState

V = "2.74"
IMAGE, OTHER = "11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222"
FAST, SAFE = "CUSTOM_FAST", "CUSTOM_SAFE"
MEMBER = Caller("u", "mine", ("member", "reader"))
ADMIN = Caller("v", "cloud", ("admin",))
SMALL = {"name": "small", "id": "small", "vcpus": 1, "ram": 1024, "disk": 10}
GIB = 1024**3

REFUSALS: list[tuple[dict[str, Any] | None, dict[str, Any], int, str]] = [
    (None, {}, 400, f"Image {OTHER} could not be found."),
    ({"status": "queued"}, {}, 400, f"Image {OTHER} is not active."),
    ({"status": "deactivated"}, {}, 400, f"Image {OTHER} is not active."),
    ({"min_ram": 1025}, {}, 400, "Flavor's memory is too small for requested image."),
    ({"min_disk": 11}, {}, 400, f"Flavor disk is {10 * GIB} bytes, minimum size is {11 * GIB} bytes."),
    ({}, {"status": 500}, 503, "The image service cannot be asked at the moment"),
    ({}, {"body": b"<html>"}, 503, "The image service cannot be asked at the moment"),
]
"""Members of the image, or that there is none; what is answered instead; what comes of it."""


@pytest.fixture
async def glance(compute: Compute) -> AsyncIterator[FakeGlance]:
    async with a_glance() as (served, images):
        compute.images = images
        yield served


Boot = Callable[..., Awaitable[Any]]


@pytest.fixture
async def boot(call: Any, compute: Compute) -> Boot:
    assert (await call("POST", "/v2.1/flavors", {"flavor": SMALL})).status == 200

    async def answer(image: str, *, token: str | None = "t") -> Any:
        server = {"name": "web", "flavorRef": "small", "networks": "none", "imageRef": image}
        return await call("POST", "/v2.1/servers", {"server": server}, version=V, token=token)

    return answer


@pytest.fixture
async def server_id(call: Any, compute: Compute, glance: FakeGlance) -> str:
    """A server on h1, of an image that is not there any more, with its claim."""
    compute.images, images = None, compute.images
    made = await make_server(call, compute)
    compute.images = images
    claim = ConsumerClaim(
        consumer_uuid=made, generation=None, consumer_type="INSTANCE", project_id="p", user_id="u",
        allocations={provider_uuid_of("h1"): {"VCPU": 1}},
    )  # fmt: skip
    (answer,) = await compute.placement.claim([ClaimGroup((claim,))])
    assert isinstance(answer, Claimed)
    return made


Rebuild = Callable[..., Awaitable[Any]]


@pytest.fixture
def rebuild(call: Any, server_id: str) -> Rebuild:
    async def answer(image: str, *, token: str | None = "t") -> Any:
        body = {"rebuild": {"imageRef": image, "name": "db"}}
        return await call("POST", f"/v2.1/servers/{server_id}/action", body, version=V, token=token)

    return answer


async def give_traits(compute: Compute, *traits: str) -> None:
    state = ProviderState(uuid=provider_uuid_of("h1"), name="h1", traits=frozenset(traits))
    await compute.placement.ensure_providers([state])


def message(answer: Any) -> str:
    (fault,) = answer.body.values()
    return str(fault["message"])


async def test_a_boot_keeps_what_its_image_requires(
    compute: Compute, glance: FakeGlance, boot: Boot, as_caller: Callable[[Caller], None]
) -> None:
    glance.add(IMAGE, min_ram=1024, min_disk=10, **{f"trait:{FAST}": "required", f"trait:{SAFE}": "forbidden"})
    as_caller(MEMBER)
    answer = await boot(IMAGE, token="secret")
    assert answer.status == 202
    assert glance.asked == [(IMAGE, "secret")]
    server = await get_server(compute, answer.body["server"]["id"])
    assert (server.image_ref, server.spec.image_traits) == (IMAGE, {FAST})


async def test_an_order_says_where_an_image_is_and_what_its_bytes_come_to(
    compute: Compute, glance: FakeGlance, rebuild: Rebuild, server_id: str
) -> None:
    async def image_ordered() -> GuestImage | None:
        agent = replace(AGENT, service_version=6, described=True)
        (order,) = (await Polls(compute).poll(["h1"], agent=agent, busy=[], wait_s=0)).orders
        return order.image

    glance.add(IMAGE, os_hash_algo="sha512", os_hash_value="ab", checksum="cd")
    glance.add(OTHER)
    for image_id, checksum in ((IMAGE, "sha512:ab"), (OTHER, "")):
        assert (await rebuild(image_id)).status == 202
        url = f"{glance.url}/v2/images/{image_id}/file"
        assert await image_ordered() == GuestImage(id=image_id, url=url, checksum=checksum)
        async with compute.database.connection() as connection:
            spec = await connection.fetchval("SELECT spec FROM compute.server")
            assert ("image_checksum" in json.loads(spec)) is bool(checksum), "boots without one write nothing of it"
            await connection.execute("UPDATE compute.server SET task_state = NULL")


async def test_without_authentication_no_token_is_passed_on(glance: FakeGlance, boot: Boot) -> None:
    glance.add(IMAGE)
    assert (await boot(IMAGE, token="anything")).status == 202
    assert glance.asked == [(IMAGE, None)]


@pytest.mark.parametrize(("members", "instead", "status", "words"), REFUSALS)
async def test_a_boot_is_refused_with_the_reason(
    compute: Compute, glance: FakeGlance, boot: Boot,
    members: dict[str, Any] | None, instead: dict[str, Any], status: int, words: str,
) -> None:  # fmt: skip
    if members is not None:
        glance.add(OTHER, **members)
    glance.answer = instead or None
    answer = await boot(OTHER)
    assert (answer.status, list(answer.body)) == (status, ["badRequest" if status == 400 else "serviceUnavailable"])
    assert words in message(answer)
    async with compute.database.connection() as connection:
        assert await connection.fetchval("SELECT count(*) FROM compute.server") == 0


async def test_an_image_that_the_caller_may_not_see_is_not_found(glance: FakeGlance, boot: Boot) -> None:
    glance.hidden.add(glance.add(OTHER))
    answer = await boot(OTHER)
    assert (answer.status, message(answer)) == (400, f"Image {OTHER} could not be found.")


async def test_a_boot_without_an_image_asks_nobody(glance: FakeGlance, boot: Boot) -> None:
    assert (await boot("")).status == 202
    assert glance.asked == []


async def test_without_an_image_service_any_image_will_do(compute: Compute, boot: Boot) -> None:
    answer = await boot("i")
    assert answer.status == 202
    assert (await get_server(compute, answer.body["server"]["id"])).spec.image_traits == frozenset()


async def test_a_rebuild_where_the_host_has_the_traits_keeps_those_of_the_new_image(
    compute: Compute, glance: FakeGlance, server_id: str, rebuild: Rebuild, as_caller: Callable[[Caller], None]
) -> None:
    await give_traits(compute, FAST, SAFE)
    glance.add(OTHER, **{f"trait:{FAST}": "required"})
    as_caller(ADMIN)
    answer = await rebuild(OTHER, token="secret")
    assert (answer.status, glance.asked) == (202, [(OTHER, "secret")])
    server = await get_server(compute, server_id)
    assert (server.image_ref, server.name, server.spec.image_traits) == (OTHER, "db", {FAST})
    assert server.spec.memory_mb == 1024, "the rest of the request stays"
    assert await guest_of(compute, server_id) == ("running", 2, None)


@pytest.mark.parametrize("present", [(), (SAFE,), (FAST,)])
async def test_a_rebuild_where_the_host_lacks_a_trait_changes_nothing(
    compute: Compute, glance: FakeGlance, server_id: str, rebuild: Rebuild, present: tuple[str, ...]
) -> None:
    await give_traits(compute, *present)
    glance.add(OTHER, **{f"trait:{FAST}": "required", f"trait:{SAFE}": "required"})
    before = await get_server(compute, server_id)
    answer = await rebuild(OTHER)
    assert (answer.status, message(answer)) == (
        409,
        "No valid host was found. Image traits cannot be satisfied by the current resource providers. "
        "Either specify a different image during rebuild or create a new server with the specified image.",
    )
    await assert_unchanged(compute, before)


@pytest.mark.parametrize(("members", "instead", "status", "words"), REFUSALS)
async def test_a_rebuild_is_refused_with_the_reason(
    compute: Compute, glance: FakeGlance, server_id: str, rebuild: Rebuild,
    members: dict[str, Any] | None, instead: dict[str, Any], status: int, words: str,
) -> None:  # fmt: skip
    if members is not None:
        glance.add(OTHER, **members)
    glance.answer = instead or None
    before = await get_server(compute, server_id)
    answer = await rebuild(OTHER)
    assert answer.status == status
    assert words in message(answer)
    await assert_unchanged(compute, before)


async def assert_unchanged(compute: Compute, before: Any) -> None:
    assert await get_server(compute, before.id) == before
    assert await guest_of(compute, before.id) == ("running", 1, "running")
    async with compute.database.connection() as connection:
        assert await connection.fetchval("SELECT count(*) FROM compute.action") == 0


async def test_a_trait_that_the_flavor_forbids_is_not_rebuilt_into_a_server(
    compute: Compute, glance: FakeGlance, server_id: str, rebuild: Rebuild
) -> None:
    await set_spec(compute, server_id, '{"flavor_groups": [{"suffix": "", "forbidden": ["CUSTOM_FAST"]}]}')
    await give_traits(compute, FAST)
    glance.add(OTHER, **{f"trait:{FAST}": "required"})
    answer = await rebuild(OTHER)
    assert answer.status == 409
    assert "Image traits are part of forbidden traits in flavor associated with the server" in message(answer)


async def test_a_rebuild_from_the_same_image_looks_at_nothing(
    compute: Compute, glance: FakeGlance, server_id: str, rebuild: Rebuild
) -> None:
    await set_spec(compute, server_id, '{"image_traits": ["CUSTOM_FAST"]}')
    assert (await rebuild("i")).status == 202
    assert glance.asked == []
    assert (await get_server(compute, server_id)).spec.image_traits == {FAST}


@pytest.mark.parametrize("looked_at", [True, False])
async def test_what_the_former_image_required_is_not_asked_for_any_more(
    compute: Compute, glance: FakeGlance, server_id: str, rebuild: Rebuild, looked_at: bool
) -> None:
    await set_spec(compute, server_id, '{"image_traits": ["CUSTOM_FAST"]}')
    glance.add(OTHER)
    if not looked_at:
        compute.images = None
    assert (await rebuild(OTHER)).status == 202
    assert (await get_server(compute, server_id)).spec.image_traits == frozenset()


async def test_what_the_servers_state_refuses_is_refused_before_its_image_is_looked_at(
    compute: Compute, glance: FakeGlance, server_id: str, rebuild: Rebuild
) -> None:
    async with compute.database.transaction() as tx:
        await tx.execute("UPDATE compute.server SET power = 'paused' WHERE id = $1", server_id)
    answer = await rebuild(OTHER)
    assert (answer.status, glance.asked) == (409, [])
    assert "Cannot 'rebuild' instance" in message(answer)


async def test_a_server_that_changes_while_its_image_is_looked_at_is_not_rebuilt(
    compute: Compute, database: Database, glance: FakeGlance, server_id: str, rebuild: Rebuild
) -> None:
    glance.add(OTHER)
    images = compute.images
    assert images is not None
    find_image = images.find_image

    class Slow:
        async def find_image(self, image_id: str, *, token: str | None) -> Any:
            async with database.transaction() as tx:
                await tx.execute("UPDATE compute.server SET image_ref = 'k' WHERE id = $1", server_id)
            return await find_image(image_id, token=token)

    compute.images = Slow()
    answer = await rebuild(OTHER)
    assert (answer.status, message(answer)) == (
        409, f"Instance {server_id} changed while its image was looked at: ask again.",
    )  # fmt: skip
    assert (await get_server(compute, server_id)).image_ref == "k"


async def set_spec(compute: Compute, server_id: str, changes: str) -> None:
    async with compute.database.transaction() as tx:
        await tx.execute("UPDATE compute.server SET spec = spec || $2::jsonb WHERE id = $1", server_id, changes)
