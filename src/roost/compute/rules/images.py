"""Decides what an image asks of flavors and of hosts. That an image is there, and for whom, the image service says.

Source: Nova, compute/api.py, _validate_flavor_image_nostatus; objects/image_meta.py, traits_required;
conductor/manager.py, _validate_image_traits_for_rebuild.
"""

from collections.abc import Collection, Mapping

from msgspec import UNSET, UnsetType

from roost.compute.model.cloud import Flavor
from roost.seams.image import Image

ACTIVE = "active"
"""The status of an image that servers can be made from."""

TRAIT_PREFIX = "trait:"
GIB = 1024**3


def read_traits(properties: Mapping[str, str]) -> frozenset[str]:
    """Return the traits that an image requires of hosts; a value other than `required` is ignored, as upstream does."""
    return frozenset(
        name.removeprefix(TRAIT_PREFIX)
        for name, value in properties.items()
        if name.startswith(TRAIT_PREFIX) and value == "required"
    )


def read_checksum(properties: Mapping[str, str]) -> str | UnsetType:
    """Return `ALGORITHM:HEX` of an image's bytes; UNSET where the image service does not say it.

    Source: Image API v2, os_hash_algo and os_hash_value.
    """
    algorithm, value = properties.get("os_hash_algo"), properties.get("os_hash_value")
    return f"{algorithm}:{value}" if algorithm and value else UNSET


def find_flavor_refusal(flavor: Flavor, image: Image) -> str | None:
    """Return why the flavor is too small for the image, or None. A flavor without a disk has none to measure."""
    if flavor.ram_mb < image.min_ram_mb:
        return "Flavor's memory is too small for requested image."
    if 0 < flavor.disk_gb < image.min_disk_gb:
        return (
            "Flavor's disk is smaller than the minimum size specified in image metadata. "
            f"Flavor disk is {flavor.disk_gb * GIB} bytes, minimum size is {image.min_disk_gb * GIB} bytes."
        )
    return None


def find_rebuild_refusal(
    traits_required: Collection[str], *, forbidden: Collection[str], present: Collection[str]
) -> str | None:
    """Return why a server cannot be rebuilt from an image that requires these traits, or None.

    forbidden: by the server's flavor. present: on the providers that the server has something of.
    """
    if not set(traits_required).isdisjoint(forbidden):
        return (
            "No valid host was found. Image traits are part of forbidden traits in flavor associated with the server. "
            "Either specify a different image during rebuild or create a new server with the specified image and a "
            "compatible flavor."
        )
    if not set(traits_required).issubset(present):
        return (
            "No valid host was found. Image traits cannot be satisfied by the current resource providers. "
            "Either specify a different image during rebuild or create a new server with the specified image."
        )
    return None
