"""What an audit may put right."""

import pytest

from roost.seams.audit import Kind, Mend, Repairs


@pytest.mark.parametrize(
    ("repairs", "mended"),
    [(Repairs.NONE, set()), (Repairs.ITSELF, {Mend.ITSELF}), (Repairs.ALL, {Mend.ITSELF, Mend.ASKED})],
    ids=lambda value: value.name if isinstance(value, Repairs) else "",
)
def test_an_audit_puts_right_what_it_may_and_never_what_is_a_persons(repairs: Repairs, mended: set[Mend]) -> None:
    assert {mend for mend in Mend if repairs.include(mend)} == mended


@pytest.mark.parametrize("kind", Kind, ids=lambda kind: kind.code)
def test_every_kind_of_drift_says_what_it_is_and_how_it_is_put_right(kind: Kind) -> None:
    assert kind.code == kind.name.lower().replace("_", "-")
    assert kind.sentence
    assert (kind.repair.startswith("by you")) is (kind.mend is Mend.PERSON)
