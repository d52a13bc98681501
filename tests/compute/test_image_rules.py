"""What an image asks of flavors and hosts, as tables."""

from collections.abc import Mapping

import pytest
from msgspec import UNSET

from roost.compute.model.cloud import Flavor
from roost.compute.rules.images import find_flavor_refusal, find_rebuild_refusal, read_checksum, read_traits
from roost.seams.image import Image

GIB = 1024**3


@pytest.mark.parametrize(
    ("properties", "traits"),
    [
        ({}, ""), ({"trait:A": "required"}, "A"), ({"trait:A": "required", "trait:B": "required"}, "AB"),
        ({"trait:A": "forbidden"}, ""), ({"trait:A": "Required"}, ""), ({"trait:A": ""}, ""),
        ({"traits:A": "required", "trait": "required", "trait1:A": "required", "os_trait:A": "required"}, ""),
        ({"hw_machine_type": "required", "trait:B": "required"}, "B"),
    ],
)  # fmt: skip
def test_traits_that_are_required_are_read_and_nothing_else(properties: Mapping[str, str], traits: str) -> None:
    assert read_traits(properties) == frozenset(traits)


@pytest.mark.parametrize(
    ("ram", "disk", "least_ram", "least_disk", "refusal"),
    [
        (512, 10, 0, 0, None), (512, 10, 512, 10, None), (512, 0, 0, 10, None),
        (512, 10, 513, 0, "Flavor's memory is too small for requested image."),
        (512, 10, 513, 11, "Flavor's memory is too small for requested image."),
        (512, 10, 0, 11,
         "Flavor's disk is smaller than the minimum size specified in image metadata. "
         f"Flavor disk is {10 * GIB} bytes, minimum size is {11 * GIB} bytes."),
    ],
)  # fmt: skip
def test_a_flavor_has_the_memory_and_disk_that_its_image_needs(
    ram: int, disk: int, least_ram: int, least_disk: int, refusal: str | None
) -> None:
    flavor = Flavor(id="f", name="f", vcpus=1, ram_mb=ram, disk_gb=disk)
    image = Image(status="active", min_ram_mb=least_ram, min_disk_gb=least_disk)
    assert find_flavor_refusal(flavor, image) == refusal


@pytest.mark.parametrize(
    ("required", "forbidden", "present", "words"),
    [
        ("", "", "", None), ("A", "", "A", None), ("A", "B", "ABC", None), ("AB", "", "AB", None),
        ("A", "", "", "cannot be satisfied by the current resource providers"),
        ("AB", "", "A", "cannot be satisfied by the current resource providers"),
        ("A", "A", "A", "are part of forbidden traits in flavor"),
        ("AB", "B", "", "are part of forbidden traits in flavor"),
    ],
)  # fmt: skip
def test_a_rebuild_needs_the_traits_of_its_image_where_the_server_is(
    required: str, forbidden: str, present: str, words: str | None
) -> None:
    refusal = find_rebuild_refusal(frozenset(required), forbidden=set(forbidden), present=set(present))
    assert (refusal is None) == (words is None)
    if refusal is not None:
        assert refusal.startswith("No valid host was found. Image traits ")
        assert words in refusal


@pytest.mark.parametrize(
    ("properties", "checksum"),
    [
        ({"os_hash_algo": "sha512", "os_hash_value": "ab", "checksum": "cd"}, "sha512:ab"),
        ({"os_hash_algo": "sha512"}, UNSET),
        ({"checksum": "cd"}, UNSET),
        ({}, UNSET),
    ],
)
def test_a_checksum_names_its_algorithm(properties: dict[str, str], checksum: object) -> None:
    assert read_checksum(properties) == checksum
