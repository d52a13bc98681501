"""`roost-manage notifications`: what waits, what was given up, and why."""

import json

import pytest
from tests.platform.test_delivery import execute, write

from roost.cli.managing.ledger_target import LedgerTarget
from roost.cli.managing.notifications import show
from roost.cli.tables import table_console
from roost.platform.database import Database


async def test_a_destination_that_takes_nothing_is_told_and_what_was_parked_is_tried_again(
    database: Database, capsys: pytest.CaptureFixture[str]
) -> None:
    target = LedgerTarget.choose(None, database.dsn, None)
    assert await show(target, table_console(), retry_parked=False, as_json=False) == 0
    assert "No notification was ever written" in capsys.readouterr().out
    await write(database, ["a", "b"])
    await execute(database, "UPDATE compute.outbox SET created_at = now() - interval '1 hour' WHERE id = 1")
    assert await show(target, table_console(), retry_parked=False, as_json=False) == 0
    cells = capsys.readouterr().out.splitlines()[1].split()
    assert cells[:4] == ["compute", "webhook", "2", "0"]
    assert cells[4].startswith("1:0"), "how long the oldest has waited"
    await execute(database, "UPDATE compute.outbox SET parked_at = now(), reason = 'it answered 400' WHERE id = 1")
    assert await show(target, table_console(), retry_parked=False, as_json=False) == 3
    assert "it answered 400" in capsys.readouterr().out
    assert await show(target, table_console(), retry_parked=True, as_json=True) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["retried"], answer["destinations"][0]["waiting"], answer["destinations"][0]["parked"]) == (1, 2, 0)
