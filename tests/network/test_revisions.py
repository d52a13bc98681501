"""A request that insists on a revision."""

import pytest

from roost.network.errors import RevisionNumberConstraintFailed
from roost.network.rules.revisions import refuse_other_revision


@pytest.mark.parametrize(("wanted", "refused"), [(None, False), (3, False), (2, True), (4, True), (0, True)])
def test_only_the_revision_that_there_is_may_be_insisted_on(wanted: int | None, refused: bool) -> None:
    if not refused:
        refuse_other_revision("Port", "p", has=3, wanted=wanted)
        return
    with pytest.raises(RevisionNumberConstraintFailed, match=f"^Port p has revision 3, not {wanted}"):
        refuse_other_revision("Port", "p", has=3, wanted=wanted)
