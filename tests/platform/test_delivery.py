"""Deliveries of notifications: at least once, in order for each subject, by one at a time."""

import asyncio
import hashlib
import hmac
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
import pytest
from aio_pika.abc import AbstractMessage
from aio_pika.exceptions import DeliveryError
from aiohttp import web
from pamqp.commands import Basic
from tests.next_call import instead

from roost.platform.database import Database
from roost.platform.delivery import Deliverer, Destination
from roost.platform.destinations import LogFile, Rabbit, Webhook, destinations_of
from roost.platform.env import Env
from roost.platform.outbox import DestinationState, Notification, Outbox, Waiting
from roost.platform.settings import NotificationSettings

SECRET = "between us"
ENV = Env()
OUTBOX = Outbox("compute", host="here", destinations=("webhook",))


@dataclass
class Receiver:
    """A receiver over real HTTP. statuses: subject -> what is answered instead of 204, "" for all. held: it waits.

    asked: what came; seen: what was taken; bodies: as they came, with what the two headers said.
    """

    seen: list[tuple[str, int]] = field(default_factory=list)
    asked: list[tuple[str, int]] = field(default_factory=list)
    bodies: list[tuple[bytes, str, str]] = field(default_factory=list)
    statuses: dict[str, int] = field(default_factory=dict)
    held: asyncio.Event | None = None
    port: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook"

    async def take(self, request: web.Request) -> web.Response:
        body = await request.read()
        self.bodies.append((body, request.headers["X-Roost-Signature"], request.headers["X-Roost-Message-Id"]))
        payload = msgspec.json.decode(body)["payload"]
        self.asked.append((payload["subject"], payload["number"]))
        if self.held is not None:
            await self.held.wait()
        status = self.statuses.get(payload["subject"], self.statuses.get("", 204))
        if status == 204:
            self.seen.append((payload["subject"], payload["number"]))
        return web.Response(status=status)


@asynccontextmanager
async def receiving() -> AsyncIterator[Receiver]:
    receiver = Receiver()
    app = web.Application()
    app.router.add_post("/hook", receiver.take)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    receiver.port = runner.addresses[0][1]
    try:
        yield receiver
    finally:
        await runner.cleanup()


@asynccontextmanager
async def delivering(
    database: Database, destination: Destination, outbox: Outbox = OUTBOX, **settings: Any
) -> AsyncIterator[Deliverer]:
    made = NotificationSettings(**{"retry_max_s": 1, **settings})
    try:
        yield Deliverer(database, outbox, destination, made, owner=ENV.new_uuid())
    finally:
        await destination.close()


async def write(database: Database, subjects: Sequence[str], outbox: Outbox = OUTBOX, *, first: int = 0) -> None:
    """One notification for each, numbered."""
    async with database.transaction() as tx:
        await outbox.write(tx, [notification(subject, number) for number, subject in enumerate(subjects, first)])


def notification(subject: str, number: int) -> Notification:
    return Notification(
        message_id=ENV.new_uuid(), subject=subject, event_type="instance.lock", publisher_id="nova-api:here",
        payload={"subject": subject, "number": number}, timestamp=ENV.now(), request={"request_id": "req-1"},
    )  # fmt: skip


async def execute(database: Database, statement: str) -> None:
    async with database.connection() as connection:
        await connection.execute(statement)


async def state_of(database: Database) -> DestinationState:
    async with database.connection() as connection:
        (state,) = await OUTBOX.list_destinations(connection)
    return state


async def due_at(database: Database, table: str) -> datetime:
    async with database.connection() as connection:
        time: datetime = await connection.fetchval(f"SELECT max(due_at) FROM compute.{table}")
    return time


async def database_time(database: Database) -> datetime:
    async with database.connection() as connection:
        time: datetime = await connection.fetchval("SELECT clock_timestamp()")
    return time


async def make_due(database: Database) -> None:
    """As if the time until the next try were over."""
    await execute(database, "UPDATE compute.outbox SET due_at = NULL")
    await execute(database, "UPDATE compute.outbox_destination SET due_at = NULL")


async def test_each_subjects_notifications_arrive_in_order(database: Database) -> None:
    await write(database, ["a", "b", "a", "a", "b"])
    async with receiving() as receiver, delivering(database, Webhook(receiver.url, SECRET)) as deliverer:
        await deliverer.work()
    assert [number for subject, number in receiver.seen if subject == "a"] == [0, 2, 3]
    assert [number for subject, number in receiver.seen if subject == "b"] == [1, 4]
    assert (await state_of(database)).waiting == 0


async def test_what_a_deliverer_sent_before_it_died_is_sent_again_and_nothing_is_missing(database: Database) -> None:
    await write(database, ["a", "a"])
    async with receiving() as receiver, delivering(database, Webhook(receiver.url, SECRET)) as first:

        async def die(*_: Any, **__: Any) -> None:
            raise asyncio.CancelledError

        instead(first, "_note", die)
        with pytest.raises(asyncio.CancelledError):
            await first.deliver()
        async with delivering(database, Webhook(receiver.url, SECRET)) as second:
            assert not await second.deliver(), "the dead one's lease has not run out"
            await execute(database, "UPDATE compute.outbox_destination SET lease_until = now() - interval '1 s'")
            await write(database, ["a"], first=2)
            await second.work()
    assert receiver.seen == [("a", 0), ("a", 1), ("a", 0), ("a", 1), ("a", 2)]


async def test_one_at_a_time_delivers(database: Database) -> None:
    await write(database, ["a"])
    async with receiving() as receiver, delivering(database, Webhook(receiver.url, SECRET)) as first:
        receiver.held = asyncio.Event()
        at_work = asyncio.create_task(first.deliver())
        while not (await leases(database)):
            await asyncio.sleep(0)
        async with delivering(database, Webhook(receiver.url, SECRET)) as second:
            assert not await second.deliver()
        receiver.held.set()
        assert await at_work
    assert receiver.seen == [("a", 0)]


async def leases(database: Database) -> int:
    async with database.connection() as connection:
        return int(await connection.fetchval("SELECT count(*) FROM compute.outbox_destination"))


async def test_a_receiver_that_fails_gets_everything_when_it_is_back(database: Database) -> None:
    await write(database, ["a", "b", "a"])
    async with receiving() as receiver, delivering(database, Webhook(receiver.url, SECRET)) as deliverer:
        receiver.statuses[""] = 503
        assert not await deliverer.deliver()
        state = await state_of(database)
        assert (state.waiting, state.failures, state.parked) == (3, 1, 0)
        assert "503" in (state.reason or "")
        receiver.statuses.clear()
        assert not await deliverer.deliver(), "it waits before it tries again"
        assert receiver.seen == []
        await make_due(database)
        await deliverer.work()
        assert sorted(receiver.seen) == [("a", 0), ("a", 2), ("b", 1)]
        state = await state_of(database)
        assert (state.waiting, state.failures, state.reason) == (0, 0, None)


@pytest.mark.parametrize(("status", "table"), [(503, "outbox_destination"), (400, "outbox")])
async def test_each_wait_is_twice_the_one_before_up_to_the_longest(database: Database, status: int, table: str) -> None:
    await write(database, ["a"])
    async with (
        receiving() as receiver,
        delivering(database, Webhook(receiver.url, SECRET), retry_max_s=6) as deliverer,
    ):
        receiver.statuses[""] = status
        for wait_s in (1, 2, 4, 6, 6):
            await make_due(database)
            began_at = await database_time(database)
            assert not await deliverer.deliver()
            ended_at = await database_time(database)
            wait = timedelta(seconds=wait_s)
            assert began_at + wait <= await due_at(database, table) <= ended_at + wait
    assert len(receiver.asked) == 5


async def test_a_receiver_that_took_something_is_not_long_away(database: Database) -> None:
    await write(database, ["a", "z", "z"])
    async with receiving() as receiver, delivering(database, Webhook(receiver.url, SECRET)) as deliverer:
        receiver.statuses[""] = 503
        for _ in range(3):
            await deliverer.deliver()
            await make_due(database)
        assert (await state_of(database)).failures == 3
        receiver.statuses = {"z": 503}
        await deliverer.deliver()
        state = await state_of(database)
        assert (state.waiting, state.failures, receiver.seen) == (2, 1, [("a", 0)])


async def test_a_receiver_that_is_not_there_costs_nothing_but_time(database: Database) -> None:
    await write(database, ["a"])
    async with receiving() as receiver:
        url = receiver.url
    host = urlsplit(url).netloc
    async with delivering(database, Webhook(f"http://user:key@{host}/the/secret", SECRET)) as deliverer:
        assert not await deliverer.deliver()
    state = await state_of(database)
    assert state.waiting == 1
    assert state.reason == f"http://{host} cannot be reached: Connection refused"


async def test_what_is_refused_holds_up_its_subject_alone_until_it_is_parked(database: Database) -> None:
    await write(database, ["a", "b", "a"])
    async with receiving() as receiver, delivering(database, Webhook(receiver.url, SECRET)) as deliverer:
        receiver.statuses["a"] = 400
        await deliverer.work()
        assert receiver.seen == [("b", 1)]
        assert ("a", 2) not in receiver.asked, "what follows of its subject waits with it"
        assert (await state_of(database)).waiting == 2
        await make_due(database)
        await execute(database, "UPDATE compute.outbox SET created_at = now() - interval '1 day 1 s' WHERE id = 1")
        await deliverer.deliver()
        state = await state_of(database)
        assert (state.waiting, state.parked) == (1, 1)
        receiver.statuses.clear()
        await deliverer.work()
        assert receiver.seen == [("b", 1), ("a", 2)], "what was parked is tried no more, and holds up nothing"
        async with database.transaction() as tx:
            assert await OUTBOX.unpark(tx) == 1
        await deliverer.work()
    assert receiver.seen[-1] == ("a", 0)


async def test_what_nobody_took_for_a_day_is_parked(database: Database) -> None:
    await write(database, ["a", "b"])
    await execute(database, "UPDATE compute.outbox SET created_at = now() - interval '1 day 1 s' WHERE id = 1")
    async with receiving() as receiver, delivering(database, Webhook(receiver.url, SECRET)) as deliverer:
        receiver.statuses[""] = 500
        await deliverer.deliver()
        state = await state_of(database)
        assert (state.waiting, state.parked) == (1, 1)
        receiver.statuses.clear()
        await make_due(database)
        await deliverer.deliver()
        assert receiver.seen == [("b", 1)]
        state = await state_of(database)
        assert (state.waiting, state.waiting_s, state.parked) == (0, None, 1)
        assert "500" in (state.reason or ""), "why it was parked is known when the receiver is back"


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("http://127.0.0.1:1/WORD", "http://127.0.0.1:1 cannot be reached: Connection refused"),
        ("http://user:WORD@127.0.0.1:1/WORD?a=WORD", "http://127.0.0.1:1 cannot be reached: Connection refused"),
        ("http://127.0.0.1:port/WORD", "http://127.0.0.1:port is no address"),
    ],
)
async def test_an_address_is_told_by_scheme_and_host(address: str, said: str) -> None:
    """The path of a webhook may be a secret, as those of chats are."""
    webhook = Webhook(address, SECRET)
    sent = await webhook.send([Waiting(1, notification("a", 1))], timeout_s=5)
    await webhook.close()
    assert sent.away == said


@dataclass
class Consumer:
    """A receiver as docs/howto/notifications.md has it. known: what it has taken, by message_id."""

    known: set[str] = field(default_factory=set)

    def take(self, body: bytes, signature: str) -> str:
        expected = "sha256=" + hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest()
        if not hmac.compare_digest(expected, signature):
            return "forged"
        message_id = msgspec.json.decode(body)["message_id"]
        if message_id in self.known:
            return "repeated"
        self.known.add(message_id)
        return "taken"


async def test_what_is_signed_cannot_be_changed_or_taken_twice(database: Database) -> None:
    await write(database, ["a"])
    consumer = Consumer()
    async with receiving() as receiver, delivering(database, Webhook(receiver.url, SECRET)) as deliverer:
        receiver.statuses[""] = 503
        await deliverer.deliver()
        receiver.statuses.clear()
        await make_due(database)
        await deliverer.deliver()
    (body, signature, message_id), second = receiver.bodies
    assert second == (body, signature, message_id), "what is sent again is the same"
    assert msgspec.json.decode(body)["message_id"] == message_id
    for name in ("message_id", "timestamp", "payload"):
        changed = msgspec.json.encode(msgspec.json.decode(body) | {name: "other"})
        assert consumer.take(changed, signature) == "forged"
    assert [consumer.take(*request[:2]) for request in receiver.bodies] == ["taken", "repeated"]


@dataclass
class Exchange:
    """An exchange whose broker refuses one message, (subject, number), once. taken: what it has confirmed."""

    refused: tuple[str, int] | None
    taken: list[tuple[str, int]] = field(default_factory=list)

    async def publish(self, message: AbstractMessage, *_: Any, **__: Any) -> None:
        payload = msgspec.json.decode(msgspec.json.decode(message.body)["oslo.message"])["payload"]
        key = payload["subject"], payload["number"]
        await asyncio.sleep(0)  # others are published meanwhile
        if key == self.refused:
            self.refused = None
            raise DeliveryError(None, Basic.Nack())
        self.taken.append(key)


@pytest.mark.parametrize(("refused", "confirmed"), [(0, []), (2, [0]), (4, [0, 2])])
async def test_what_the_broker_has_not_confirmed_holds_up_its_subject(
    database: Database, monkeypatch: pytest.MonkeyPatch, refused: int, confirmed: list[int]
) -> None:
    """A listener that drops repeats must not hear a later message before an earlier one."""
    outbox = Outbox("compute", host="here", destinations=("rabbitmq",))
    await write(database, ["a", "b", "a", "c", "a"], outbox)
    exchange = Exchange(("a", refused))
    rabbit = Rabbit("amqp://broker", exchange="nova", topics=("versioned_notifications",), durable=False)

    async def opened(_priorities: set[str]) -> Any:
        return exchange

    monkeypatch.setattr(rabbit, "_open", opened)
    async with delivering(database, rabbit, outbox) as deliverer:
        assert not await deliverer.deliver()
        assert sorted(exchange.taken) == [*(("a", number) for number in confirmed), ("b", 1), ("c", 3)]
        state = await state_of(database)
        assert (state.waiting, "RabbitMQ does not take it" in (state.reason or "")) == (3 - len(confirmed), True)
        await make_due(database)
        await deliverer.work()
    assert [number for subject, number in exchange.taken if subject == "a"] == [0, 2, 4]
    assert len(exchange.taken) == 5, "what was confirmed is not sent again"


async def test_the_oldest_are_dropped_where_too_many_wait(database: Database) -> None:
    await write(database, ["a"] * 5)
    async with receiving() as receiver:
        webhook = Webhook(receiver.url, SECRET)
        async with delivering(database, webhook, outbox_rows_max=2) as deliverer:
            await deliverer.work()
    assert receiver.seen == [("a", 3), ("a", 4)]


async def test_each_destination_gets_everything(database: Database, tmp_path: Path) -> None:
    both = Outbox("network", host="here", destinations=("log_file", "webhook"))
    await write(database, ["a", "a"], both)
    file = tmp_path / "notifications.log"
    async with receiving() as receiver:
        async with delivering(database, LogFile(file), both) as deliverer:
            await deliverer.work()
        async with delivering(database, Webhook(receiver.url, SECRET), both) as deliverer:
            await deliverer.work()
    lines = [msgspec.json.decode(line) for line in file.read_bytes().splitlines()]
    assert [line["payload"]["number"] for line in lines] == [0, 1]
    assert (lines[0]["event_type"], lines[0]["context"]) == ("instance.lock", {"request_id": "req-1"})
    assert receiver.seen == [("a", 0), ("a", 1)]


async def test_a_file_that_cannot_be_written_is_tried_again(database: Database, tmp_path: Path) -> None:
    outbox = Outbox("compute", host="here", destinations=("log_file",))
    await write(database, ["a"], outbox)
    async with delivering(database, LogFile(tmp_path / "none" / "log"), outbox) as deliverer:
        assert not await deliverer.deliver()
    state = await state_of(database)
    assert state.waiting == 1
    assert "cannot be written" in (state.reason or "")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"webhook_url": "receiver.example"}, "webhook_url: expected an address"),
        ({"webhook_url": "https://receiver.example"}, "webhook_secret"),
        ({"amqp_url": "rabbit://broker"}, "amqp_url: expected an address"),
    ],
)
def test_settings_that_cannot_work_are_refused(options: dict[str, str], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        NotificationSettings(**options)  # type: ignore[arg-type]


def test_there_is_a_destination_for_each_that_is_named() -> None:
    settings = NotificationSettings(
        log_file="notifications.log", webhook_url="http://r", webhook_secret="s", amqp_url="amqp://b"
    )
    made = destinations_of(settings, exchange="nova", topics=("versioned_notifications",))
    assert tuple(destination.name for destination in made) == settings.destinations
    assert NotificationSettings().destinations == ()
