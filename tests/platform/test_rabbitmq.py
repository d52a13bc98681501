"""RabbitMQ, with oslo.messaging's own listener at its other end."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from queue import Queue
from typing import Any

import pytest
from msgspec.structs import replace
from tests.platform.test_delivery import delivering, notification
from tests.rabbitmq import MISSING, Broker, broker

from roost.platform.database import Database
from roost.platform.destinations import Rabbit
from roost.platform.outbox import Outbox

pytestmark = pytest.mark.skipif(MISSING is not None and not os.environ.get("CI"), reason=str(MISSING))

OUTBOX = Outbox("compute", host="here", destinations=("rabbitmq",))
WAIT_S = 60
TOPIC = "versioned_notifications"


@pytest.fixture(scope="module")
def rabbit() -> Iterator[Broker]:
    with broker() as made:
        yield made


@pytest.fixture
def heard(rabbit: Broker) -> Iterator[Callable[[], Any]]:
    """`heard()`: the next notification that the listener got, within WAIT_S."""
    words = [sys.executable, "-m", "tests.notification_listener", rabbit.transport_url, "nova", TOPIC]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    lines: Queue[str] = Queue()
    assert process.stdout is not None
    reader = threading.Thread(target=lambda output: [lines.put(line) for line in output], args=(process.stdout,))
    reader.start()
    try:
        assert lines.get(timeout=WAIT_S) == "ready\n"
        yield lambda: json.loads(lines.get(timeout=WAIT_S))
    finally:
        process.kill()
        process.wait()
        reader.join()
        process.stdout.close()


def destination(rabbit: Broker) -> Rabbit:
    return Rabbit(rabbit.url, exchange="nova", topics=(TOPIC,), durable=False)


async def write(database: Database, *numbers: int, priority: str = "INFO") -> None:
    async with database.transaction() as tx:
        await OUTBOX.write(tx, [replace(notification("a", number), priority=priority) for number in numbers])


async def test_a_listener_of_oslo_messaging_hears_each_notification_in_order(
    database: Database, rabbit: Broker, heard: Callable[[], Any]
) -> None:
    async with delivering(database, destination(rabbit), OUTBOX) as deliverer:
        await write(database, *range(200))
        await deliverer.work()
        first, *others = [heard() for _ in range(200)]
        assert [one["payload"]["number"] for one in (first, *others)] == list(range(200))
        assert (first["event_type"], first["publisher_id"]) == ("instance.lock", "nova-api:here")
        assert first["context"]["request_id"] == "req-1"
        assert set(first["metadata"]) == {"message_id", "timestamp"}
        await write(database, 200, priority="ERROR")
        await deliverer.work()
        assert heard()["payload"]["number"] == 200


async def test_what_is_written_while_the_broker_is_away_is_heard_when_it_is_back(
    database: Database, rabbit: Broker, heard: Callable[[], Any]
) -> None:
    async with delivering(database, destination(rabbit), OUTBOX) as deliverer:
        await write(database, 0)
        await deliverer.work()
        assert heard()["payload"]["number"] == 0
        rabbit.stop()
        await write(database, 1, 2)
        assert not await deliverer.deliver()
        async with database.connection() as connection:
            (state,) = await OUTBOX.list_destinations(connection)
            assert (state.waiting, state.failures) == (2, 1)
            assert "RabbitMQ does not take it" in (state.reason or "")
            await connection.execute("UPDATE compute.outbox_destination SET due_at = NULL")
        rabbit.start()
        await deliverer.work()
        assert [heard()["payload"]["number"] for _ in range(2)] == [1, 2]
