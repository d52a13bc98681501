"""Images: looked at before servers are made from them, where there is an image service. It keeps them, not Roost."""

from typing import Any

from msgspec import UNSET

from roost.compute.errors import ActionRefused, ServerRefused
from roost.compute.model.cloud import Flavor
from roost.compute.model.server import Server
from roost.compute.rules.images import ACTIVE, find_flavor_refusal, find_rebuild_refusal, read_checksum, read_traits
from roost.compute.service.context import Compute
from roost.seams.image import Image


async def get_image(compute: Compute, image_ref: str, *, token: str | None) -> Image | None:
    """Return the image as the caller with the token sees it; None if none is named, or there is no image service.

    Raises ServerRefused (no such image, or it is not active) and ImageServiceUnavailable.
    """
    if compute.images is None or not image_ref:
        return None
    image = await compute.images.find_image(image_ref, token=token)
    if image is None:
        raise ServerRefused(f"Image {image_ref} could not be found.")
    if image.status != ACTIVE:
        raise ServerRefused(f"Image {image_ref} is not active.")
    return image


def describe_image(image: Image | None, flavor: Flavor) -> dict[str, Any]:
    """Return what a request spec keeps of the image, if any. Raises ServerRefused for a flavor too small."""
    if image is None:
        return {"image_traits": frozenset(), "image_checksum": UNSET}
    if refusal := find_flavor_refusal(flavor, image):
        raise ServerRefused(refusal)
    return {"image_traits": read_traits(image.properties), "image_checksum": read_checksum(image.properties)}


async def describe_rebuild(
    compute: Compute, server: Server, image_ref: str | None, *, token: str | None
) -> dict[str, Any]:
    """Return what the server's spec keeps of its image once it is rebuilt; the image that it has is not looked at.

    Raises what get_image does, ServerRefused for a flavor too small, and ActionRefused where its host lacks a trait.
    """
    if image_ref is None or image_ref == server.image_ref:
        return {"image_traits": server.spec.image_traits, "image_checksum": server.spec.image_checksum}
    image = await get_image(compute, image_ref, token=token)
    described = describe_image(image, server.flavor)
    traits_required = described["image_traits"]
    if not traits_required:
        return described
    refusal = find_rebuild_refusal(
        traits_required,
        forbidden=frozenset().union(*(group.forbidden for group in server.spec.flavor_groups)),
        present=await _list_traits(compute, server.id),
    )
    if refusal:
        raise ActionRefused(refusal)
    return described


async def _list_traits(compute: Compute, server_id: str) -> set[str]:
    """Return the traits of all providers that the server has something of: its host, and what is below or beside it."""
    consumers = await compute.placement.get_consumers([server_id])
    provider_uuids = [uuid for consumer in consumers.values() for uuid in consumer.allocations]
    providers = await compute.placement.get_providers(provider_uuids)
    return {trait for provider in providers.values() for trait in provider.traits or ()}
