"""Rows are deleted in batches, each a transaction, until one is not full or enough have gone."""

import pytest

from roost.platform.database import Connection, Database
from roost.platform.purging import purge


@pytest.mark.parametrize(
    ("rows", "most", "each", "limits"),
    [
        pytest.param(0, None, 1, [10], id="none"),
        pytest.param(25, None, 1, [10, 10, 10], id="until a batch is not full"),
        pytest.param(20, None, 1, [10, 10, 10], id="a full batch says nothing of the next"),
        pytest.param(25, 12, 1, [10, 2], id="enough"),
        pytest.param(25, 12, 3, [10], id="a batch has more rows than its limit"),
        pytest.param(25, 0, 1, [], id="nothing is to go"),
        pytest.param(25, -3, 1, [], id="more have gone than were to"),
    ],
)
async def test_rows_go_in_batches(
    database: Database, rows: int, most: int | None, each: int, limits: list[int]
) -> None:
    """each: how many rows go for one that the limit counts."""
    asked: list[int] = []
    rows_left = rows

    async def delete(tx: Connection, limit: int) -> int:
        nonlocal rows_left
        assert await tx.fetchval("SELECT pg_current_xact_id_if_assigned() IS NULL"), "a transaction of its own"
        await tx.fetchval("SELECT pg_current_xact_id()")
        asked.append(limit)
        gone = min(limit, rows_left)
        rows_left -= gone
        return gone * each

    assert await purge(database, delete, batch=10, most=most) == (rows - rows_left) * each
    assert asked == limits
