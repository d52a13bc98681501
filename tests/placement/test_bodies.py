"""msgspec reads allocations faster than jsonschema, and never otherwise: what it takes, the schema takes, and alike."""

from typing import Any

import msgspec
from hypothesis import example, given
from hypothesis import strategies as st

from roost.placement.api import schemas
from roost.placement.api.allocations import read_claims, slow_claims
from roost.placement.api.bodies import check, decode
from roost.platform.errors import BadRequest
from roost.seams.placement import ConsumerClaim

UUID = "00000000-0000-4000-8000-000000000001"
VERSIONS = st.integers(28, 39).map(lambda minor: (1, minor))

UUIDS = st.sampled_from([UUID, UUID.upper(), UUID.replace("-", ""), "-" * 36, UUID + "\n", "x", ""])
NAMES = st.sampled_from(["VCPU", "CUSTOM_A", "vcpu", "VCPU\n", "", "A" * 256, "Ä"])
AMOUNTS = st.sampled_from([1, 2**31 - 1, 2**31, 0, -1, 1.0, 1.5, True, "1", None, 2**64, 1e300])
TEXTS = st.sampled_from(["p", "", "a" * 255, "a" * 256, "ä", "a\n", "\0", None, 1])


def mostly(good: Any, strange: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """The good value in most of the draws, so that whole bodies are good now and then."""
    return st.one_of(st.just(good), st.just(good), st.just(good), strange)


ENTRIES = st.fixed_dictionaries(
    {"resources": st.dictionaries(mostly("VCPU", NAMES), mostly(1, AMOUNTS), max_size=2)},
    optional={"generation": mostly(3, AMOUNTS), "odd": st.none()},
)
CONSUMERS = st.fixed_dictionaries(
    {
        "allocations": mostly({}, st.dictionaries(mostly(UUID, UUIDS), ENTRIES, max_size=2)),
        "project_id": mostly("p", TEXTS),
        "user_id": mostly("u", TEXTS),
        "consumer_generation": mostly(None, AMOUNTS),
    },
    optional={
        "consumer_type": mostly("INSTANCE", NAMES),
        "mappings": st.dictionaries(mostly("_a", NAMES), st.lists(mostly(UUID, UUIDS), max_size=2), max_size=2),
        "odd": st.none(),
    },
)
BODIES = st.dictionaries(mostly(UUID, UUIDS), CONSUMERS, max_size=2)


def outcome(read: Any) -> tuple[ConsumerClaim, ...] | None:
    """What was read, None where it was refused."""
    try:
        claims: tuple[ConsumerClaim, ...] = read()
    except BadRequest:
        return None
    return claims


@given(BODIES, VERSIONS)
@example({UUID: {"allocations": {}, "project_id": "p", "user_id": "u", "consumer_generation": None}}, (1, 28))
def test_both_ways_to_read_a_body_come_to_the_same(body: Any, version: tuple[int, int]) -> None:
    raw = msgspec.json.encode(body)

    def slowly() -> tuple[ConsumerClaim, ...]:
        data = decode(raw)
        check(data, schemas.ALLOCATIONS_SET_MANY.at(version), "")
        return slow_claims(data, version)

    assert outcome(lambda: read_claims(raw, version)) == outcome(slowly)
