"""A request for what is not there, or that insists on a revision."""

import pytest
from msgspec.structs import replace
from tests.network.parts import a_network

from roost.network.errors import NetworkNotFound, RevisionNumberConstraintFailed
from roost.network.service import pick, pick_revision


@pytest.mark.parametrize(("wanted", "refused"), [(None, False), (3, False), (2, True), (4, True), (0, True)])
def test_only_the_revision_that_there_is_may_be_insisted_on(wanted: int | None, refused: bool) -> None:
    network = replace(a_network(), revision=3)
    if not refused:
        assert pick_revision([network], NetworkNotFound, "Network", "n", wanted) is network
        return
    with pytest.raises(RevisionNumberConstraintFailed, match=f"^Network n has revision 3, not {wanted}"):
        pick_revision([network], NetworkNotFound, "Network", "n", wanted)


def test_what_was_not_read_is_not_there() -> None:
    network = a_network()
    assert pick([network], NetworkNotFound, "Network", "n") is network
    assert pick_revision([network], NetworkNotFound, "Network", "n", network.revision) is network
    with pytest.raises(NetworkNotFound, match="Network n could not be found"):
        pick([], NetworkNotFound, "Network", "n")
    with pytest.raises(NetworkNotFound, match="Network n could not be found"):
        pick_revision([], NetworkNotFound, "Network", "n", 7)
    with pytest.raises(RevisionNumberConstraintFailed):
        pick_revision([network], NetworkNotFound, "Network", "n", network.revision + 1)
