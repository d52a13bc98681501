"""msgspec reads allocations faster than jsonschema, and never otherwise: what it takes, the schema takes, and alike."""

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from roost.placement.api import schemas
from roost.placement.api.allocations import read_claims, slow_claims
from roost.placement.api.bodies import check, decode
from roost.platform.errors import BadRequest
from roost.seams.placement import ConsumerClaim

UUID = "00000000-0000-4000-8000-000000000001"

UUIDS = (UUID.upper(), UUID.replace("-", ""), "-" * 36, UUID + "\n", "x", "")
NAMES = ("CUSTOM_A", "vcpu", "VCPU\n", "", "A" * 256, "Ä")
AMOUNTS = (2**31 - 1, 2**31, 0, -1, 1.0, 1.5, True, "1", None, 2**64, 1e300)
TEXTS = ("", "a" * 255, "a" * 256, "ä", "a\n", "\0", None, 1)


def bodies(
    *,
    uuid: str = UUID,
    provider: str = UUID,
    name: str = "VCPU",
    amount: object = 1,
    entry: dict[str, object] | None = None,
    consumer: dict[str, object] | None = None,
) -> dict[str, Any]:
    held = {provider: {"resources": {name: amount}, **(entry or {})}}
    owner = {"project_id": "p", "user_id": "u", "consumer_generation": None}
    return {uuid: {"allocations": held, **owner, **(consumer or {})}}


def strange_bodies() -> Iterator[dict[str, Any]]:
    """One thing out of place in each."""
    yield {}
    yield bodies()
    yield bodies(entry={"odd": 1})
    yield bodies(consumer={"odd": 1})
    yield bodies(entry={"resources": {}})
    for uuid in UUIDS:
        yield bodies(uuid=uuid)
        yield bodies(provider=uuid)
        yield bodies(consumer={"mappings": {"": [uuid]}})
        yield bodies(consumer={"mappings": {"_a": [uuid]}})
    for name in NAMES:
        yield bodies(name=name)
        yield bodies(consumer={"consumer_type": name})
        yield bodies(consumer={"mappings": {name: [UUID]}})
    for amount in AMOUNTS:
        yield bodies(amount=amount)
        yield bodies(entry={"generation": amount})
        yield bodies(consumer={"consumer_generation": amount})
    for text in TEXTS:
        yield bodies(consumer={"project_id": text})
        yield bodies(consumer={"user_id": text})
    for allocations in ({}, [], None):
        yield bodies(consumer={"allocations": allocations})
    for mappings in ({}, {"_a": []}, {"_a": None}, [], None):
        yield bodies(consumer={"mappings": mappings})


def outcome(read: Any) -> tuple[ConsumerClaim, ...] | None:
    """What was read, None where it was refused."""
    try:
        claims: tuple[ConsumerClaim, ...] = read()
    except BadRequest:
        return None
    return claims


@pytest.mark.parametrize("minor", [28, 33, 34, 37, 38, 39])
@pytest.mark.parametrize(
    "usual", [{}, {"consumer_type": "INSTANCE"}, {"mappings": {"_a": [UUID]}}], ids=["bare", "typed", "mapped"]
)
def test_both_ways_to_read_a_body_come_to_the_same(minor: int, usual: dict[str, object]) -> None:
    for strange in strange_bodies():
        body = {uuid: {**usual, **consumer} for uuid, consumer in strange.items()}
        raw, version = msgspec.json.encode(body), (1, minor)

        def slowly(raw: bytes = raw, version: tuple[int, int] = version) -> tuple[ConsumerClaim, ...]:
            data = decode(raw)
            check(data, schemas.ALLOCATIONS_SET_MANY.at(version), "")
            return slow_claims(data, version)

        assert outcome(lambda raw=raw, version=version: read_claims(raw, version)) == outcome(slowly), body
