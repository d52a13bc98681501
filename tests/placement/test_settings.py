"""How far a search goes, by the operator's settings."""

import pytest

from roost.cli.settings import Settings
from roost.placement.settings import PlacementSettings
from roost.platform.config import read_config
from roost.platform.errors import BadRequest


@pytest.mark.parametrize(
    ("most", "asked", "limit"),
    [(-1, 0, 0), (-1, 7, 7), (5, 0, 5), (5, 3, 3), (5, 7, 5), (0, 0, 1), (0, 9, 1)],
)
def test_no_query_gets_more_candidates_than_the_operator_allows(most: int, asked: int, limit: int) -> None:
    assert PlacementSettings(max_allocation_candidates=most).limit(asked) == limit


def test_the_strategy_has_upstreams_names_and_no_others() -> None:
    def load(strategy: str) -> PlacementSettings:
        variable = "ROOST_PLACEMENT_ALLOCATION_CANDIDATES_GENERATION_STRATEGY"
        return read_config(Settings, sources=(), environment={variable: strategy}).placement

    assert load("depth-first").depth_first
    assert not load("breadth-first").depth_first
    assert not PlacementSettings().depth_first
    with pytest.raises(BadRequest, match="allocation_candidates_generation_strategy"):
        load("best-first")
