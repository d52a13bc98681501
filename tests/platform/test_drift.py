"""What an audit may repair, and what every kind of drift says of it."""

import pytest

from roost.compute.rules import drift as compute_drift
from roost.network.rules import drift as network_drift
from roost.platform.drift import Kind, RepairedBy, Repairs

KINDS = [value for wing in (compute_drift, network_drift) for value in vars(wing).values() if isinstance(value, Kind)]


@pytest.mark.parametrize(
    ("repairs", "repaired"),
    [
        (Repairs.NONE, set()),
        (Repairs.ITSELF, {RepairedBy.ITSELF}),
        (Repairs.ALL, {RepairedBy.ITSELF, RepairedBy.ASKED}),
    ],
    ids=lambda value: value.name if isinstance(value, Repairs) else "",
)
def test_an_audit_repairs_what_it_may_and_never_what_is_a_persons(repairs: Repairs, repaired: set[RepairedBy]) -> None:
    assert set(repairs.value) == repaired


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.code)
def test_every_kind_of_drift_says_what_it_is_and_who_repairs_it(kind: Kind) -> None:
    assert kind.sentence
    assert kind.repair.startswith("by you") is (kind.repaired_by is RepairedBy.PERSON)
    drift = kind.drift("key", "is not", name="web")
    assert (drift.kind, drift.key, drift.says, drift.name, drift.repaired) == (kind, "key", "is not", "web", False)
