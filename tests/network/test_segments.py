"""Which hosts may have addresses where."""

import pytest

from roost.network.model.networks import Host
from roost.network.rules.segments import is_in_cell


@pytest.mark.parametrize(
    ("host", "cell", "may"),
    [
        (Host("h1", frozenset(), "cell1"), "cell1", True),
        (Host("h1", frozenset(), "cell2"), "cell1", False),
        (Host("h1", frozenset(), "cell2"), None, True),
        (None, "cell1", False),
        (None, None, True),
    ],
    ids=["its cell", "another cell", "every cell", "an unknown host", "an unknown host, every cell"],
)
def test_a_host_has_addresses_of_its_cells_pools(host: Host | None, cell: str | None, may: bool) -> None:
    assert is_in_cell(host, cell) is may
