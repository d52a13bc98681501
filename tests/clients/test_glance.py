"""What Roost makes of every answer of an image service, over real HTTP."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.fake_glance import FakeGlance, a_glance

from roost.clients.glance import GlanceImages
from roost.seams.image import Image, ImageServiceUnavailable

IMAGE = "11111111-1111-4111-8111-111111111111"


@pytest.fixture
async def served() -> AsyncIterator[tuple[FakeGlance, GlanceImages]]:
    async with a_glance() as both:
        yield both


async def test_an_image_is_read_with_its_properties(served: tuple[FakeGlance, GlanceImages]) -> None:
    glance, images = served
    glance.add(IMAGE, min_ram=512, min_disk=3, **{"trait:HW_CPU_X86_AVX2": "required", "os_hidden": False})
    image = await images.find_image(IMAGE, token="t")
    assert image is not None
    assert (image.status, image.min_ram_mb, image.min_disk_gb) == ("active", 512, 3)
    assert image.properties["trait:HW_CPU_X86_AVX2"] == "required"
    assert "os_hidden" not in image.properties
    assert glance.asked == [(IMAGE, "t")]


@pytest.mark.parametrize("token", ["secret", None])
async def test_the_callers_own_token_is_sent_and_no_other(
    served: tuple[FakeGlance, GlanceImages], token: str | None
) -> None:
    glance, images = served
    glance.add(IMAGE)
    await images.find_image(IMAGE, token="another caller's")
    await images.find_image(IMAGE.upper().replace("-", ""), token=token)
    assert glance.asked == [(IMAGE, "another caller's"), (IMAGE, token)]
    assert len(glance.connections) == 1, "the connection is kept"


@pytest.mark.parametrize("path", ["", "/", "/v2", "/v2/"])
async def test_the_endpoint_may_name_the_version(path: str) -> None:
    async with a_glance() as (glance, _):
        glance.add(IMAGE)
        images = GlanceImages(f"{glance.url}{path}")
        assert await images.find_image(IMAGE, token=None) is not None
        await images.close()


async def test_no_caller_gets_another_ones_cookies() -> None:
    async with a_glance() as (glance, _):
        glance.add(IMAGE)
        images = GlanceImages(f"http://localhost:{glance.port}")  # no cookie is ever kept of a number
        for token in ("one", "other"):
            assert await images.find_image(IMAGE, token=token) is not None
        assert glance.cookies == ["", ""]
        await images.close()


async def test_an_image_that_is_not_there_or_not_for_the_caller_is_none(
    served: tuple[FakeGlance, GlanceImages],
) -> None:
    glance, images = served
    assert await images.find_image(IMAGE, token="t") is None
    glance.add(IMAGE)
    glance.hidden.add(IMAGE)
    assert await images.find_image(IMAGE, token="t") is None


@pytest.mark.parametrize("image_id", ["", "i", "..", "../../v3/users", f"{IMAGE}?a=b", "a\n", "é"])
async def test_what_is_no_uuid_is_never_asked_for(served: tuple[FakeGlance, GlanceImages], image_id: str) -> None:
    glance, images = served
    assert await images.find_image(image_id, token="t") is None
    assert glance.asked == []


@pytest.mark.parametrize(
    ("answer", "cause"),
    [
        ({"status": 500}, "it answers 500"), ({"status": 503}, "it answers 503"), ({"status": 401}, "it answers 401"),
        ({"status": 302, "headers": {"Location": "/v2/images/elsewhere"}}, "it answers 302"),
        ({"status": 204}, "it answers 204"),
        ({"body": b""}, "its answer is no image"), ({"body": b"<html>"}, "its answer is no image"),
        ({"body": b"[]"}, "its answer is no image"), ({"body": b"{}"}, "its answer is no image"),
        ({"body": b'{"status": 1}'}, "its answer is no image"),
        ({"body": b'{"status": "active", "min_ram": "much"}'}, "its answer is no image"),
        ({"body": b'{"status": "active", "min_disk": -1}'}, "its answer is no image"),
        ({"body": b'{"status": "\xff"}'}, "its answer is no image"),
        ({"body": b'{"a": ' + b"[" * 100_000}, "its answer is no image"),
        ({"body": b"no gzip", "headers": {"Content-Encoding": "gzip"}}, ""),
    ],
)  # fmt: skip
async def test_any_other_answer_is_an_outage_that_names_service_and_cause(
    served: tuple[FakeGlance, GlanceImages], answer: dict[str, Any], cause: str
) -> None:
    glance, images = served
    glance.add(IMAGE)
    glance.answer = answer
    with pytest.raises(ImageServiceUnavailable) as caught:
        await images.find_image(IMAGE, token="t")
    assert str(caught.value).startswith(f"The image service at {glance.url} cannot be asked for image {IMAGE}: {cause}")
    assert len(glance.asked) == 1
    glance.answer = None
    assert isinstance(await images.find_image(IMAGE, token="t"), Image)


async def test_a_service_that_stalls_is_not_waited_for() -> None:
    async with a_glance() as (glance, _):
        glance.stalls = True
        images = GlanceImages(glance.url, timeout_s=0.2)
        with pytest.raises(ImageServiceUnavailable, match="no answer in time"):
            await images.find_image(IMAGE, token="t")
        await images.close()


async def test_a_service_that_is_not_there_is_said_to_refuse() -> None:
    async with a_glance() as (glance, _):
        pass
    images = GlanceImages(glance.url)
    with pytest.raises(ImageServiceUnavailable, match="Connection refused"):
        await images.find_image(IMAGE, token="t")
    await images.close()
