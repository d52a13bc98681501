"""Neutron's notifications: what they wake, and that nothing of them is believed. With oslo.messaging's own notifier."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import aio_pika
import pytest
from structlog.testing import capture_logs
from tests.fake_neutron import FakeNeutron
from tests.placement.calls import Api
from tests.placement.nova import a_segment, publish
from tests.placement.providers import a_uuid
from tests.rabbitmq import MISSING, Broker, broker

from roost.cli.serving.neutron import NeutronPoll, make_listener
from roost.clients import neutron_notifications
from roost.clients.neutron_notifications import Heard, NeutronListener, read_message
from roost.placement.service.ledger import Ledger, sync_standard_names
from roost.placement.service.neutron import run_round
from roost.placement.service.neutron_view import NeutronView
from roost.placement.settings import PlacementSettings
from roost.platform.database import Database
from roost.platform.errors import BadRequest
from roost.platform.settings import NeutronSettings
from roost.seams.placement import IPV4_ADDRESS

WAIT_S = 60
SERVER = "11111111-0000-4000-8000-000000000001"
real_rabbit = pytest.mark.skipif(MISSING is not None and not os.environ.get("CI"), reason=str(MISSING))

# As Neutron 29 sends it: the hook of its API, through oslo.messaging's driver `messagingv2`.
CAPTURED = {
    "oslo.version": "2.0",
    "oslo.message": json.dumps(
        {
            "message_id": "6f1a6b1c-7c0e-4b52-9d53-2f6a4be0d1c7", "publisher_id": "network.controller",
            "event_type": "port.delete.end", "priority": "INFO",
            "payload": {
                "port_id": "0e1ec1b5-4c4b-4a9f-8e8e-3ac6f1d6e5a1",
                "port": {"id": "0e1ec1b5-4c4b-4a9f-8e8e-3ac6f1d6e5a1", "device_owner": "compute:nova", "fixed_ips": []},
            },
            "timestamp": "2026-03-01 10:00:00.123456", "_unique_id": "8d4e7a0c3b5f4f0e9d7c1a2b3c4d5e6f",
            "_context_user_id": "u", "_context_project_id": "p", "_context_request_id": "req-1",
        }
    ),
}  # fmt: skip


def body_of(event_type: str, payload: Any = None) -> bytes:
    message = json.loads(CAPTURED["oslo.message"]) | {"event_type": event_type, "payload": payload or {}}
    return json.dumps(CAPTURED | {"oslo.message": json.dumps(message)}).encode()


@pytest.mark.parametrize(
    ("body", "heard"),
    [
        (json.dumps(CAPTURED).encode(), Heard("0e1ec1b5-4c4b-4a9f-8e8e-3ac6f1d6e5a1")),
        (body_of("port.create.end", {"port": {"id": "x"}}), Heard()),
        (body_of("port.update.end", {"port": {"id": "x"}, "port_id": "x"}), Heard()),
        (body_of("subnet.create.end"), Heard()), (body_of("segment.delete.end", {"segment_id": "x"}), Heard()),
        (body_of("port.delete.end", {"port_id": 5}), Heard()), (body_of("port.delete.end", ["port_id"]), Heard()),
        (body_of("port.create.start"), None), (body_of("router.create.end"), None), (body_of("port"), None),
        (b"", None), (b"{}", None), (b"\xff", None), (b'{"oslo.message": "no JSON"}', None), (b"[" * 100_000, None),
        (b'{"oslo.message": {"event_type": "port.create.end"}}', None),
    ],
)  # fmt: skip
def test_what_a_message_tells(body: bytes, heard: Heard | None) -> None:
    assert read_message(body) == heard


def test_an_address_that_is_none_is_refused_without_its_password() -> None:
    with pytest.raises(BadRequest, match=r"\[neutron\] amqp_url") as refused:
        NeutronSettings(url="http://n", amqp_url="rabbit://u:secret@b/").check()
    assert "secret" not in str(refused.value)


def test_nobody_listens_unless_told_to() -> None:
    assert make_listener(NeutronSettings(url="http://n")) is None
    assert make_listener(NeutronSettings(url="http://n", amqp_url="amqp://b/")) is not None


class Cloud:
    """A ledger with one segment, its Neutron, and a poller that would look again in an hour."""

    def __init__(self, ledger: Ledger, neutron: FakeNeutron, segment: str) -> None:
        self.ledger, self.neutron, self.segment = ledger, neutron, segment

    @classmethod
    async def make(cls, database: Database) -> "Cloud":
        ledger = Ledger(database, settings=PlacementSettings(implied_addresses=True))
        await sync_standard_names(ledger)
        segment = a_segment(5, 2)
        await publish(ledger, segment)
        neutron = FakeNeutron()
        neutron.add_network({segment.uuid: 5})
        return cls(ledger, neutron, segment.uuid)

    async def used(self) -> int:
        _, body = await Api(self.ledger).call("GET", f"/resource_providers/{self.segment}/usages")
        return int(body["usages"].get(IPV4_ADDRESS, 0))

    async def until_used(self, amount: int) -> None:
        async with asyncio.timeout(WAIT_S):
            while await self.used() != amount:
                await asyncio.sleep(0.05)  # another process is at work; nothing here can move its clock


@asynccontextmanager
async def polling(cloud: Cloud, listener: NeutronListener) -> AsyncIterator[NeutronPoll]:
    settings = NeutronSettings(url="http://n", poll_s=3600, full_s=3600)
    poll = NeutronPoll(cloud.ledger, cloud.neutron, settings, listener)
    task = asyncio.create_task(poll.run())
    try:
        yield poll
    finally:
        task.cancel()
        await asyncio.wait([task])


@pytest.fixture(scope="module")
def rabbit() -> Iterator[Broker]:
    with broker() as made:
        yield made


@contextmanager
def notifying(rabbit: Broker) -> Iterator[Callable[..., None]]:
    """`notify("port.create.end", payload)`: as Neutron's notifier does, through the broker."""
    words = [sys.executable, "-m", "tests.notification_sender", rabbit.transport_url, "neutron", "notifications"]
    process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None
    assert process.stdout is not None

    def notify(event_type: str, payload: Any = None) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(f"{json.dumps({'event_type': event_type, 'payload': payload or {}})}\n")
        process.stdin.flush()
        assert process.stdout.readline() == "sent\n"

    try:
        yield notify
    finally:
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()


def listener_of(rabbit: Broker) -> NeutronListener:
    return NeutronListener(NeutronSettings(url="http://n", amqp_url=rabbit.url))


@real_rabbit
async def test_a_port_is_counted_at_once_when_neutron_tells_of_it_and_given_back_when_it_is_gone(
    database: Database, rabbit: Broker
) -> None:
    cloud = await Cloud.make(database)
    with notifying(rabbit) as notify:
        await asyncio.to_thread(notify, "network.create.start")  # the exchange is Neutron's
        async with polling(cloud, listener_of(rabbit)):
            port = cloud.neutron.add_port(cloud.segment, SERVER)
            await cloud.until_used(1)  # by the first round, or the one that begins as it listens
            another = cloud.neutron.add_port(cloud.segment, SERVER)
            await asyncio.to_thread(notify, "port.create.end", {"port": {"id": another}})
            await cloud.until_used(2)
            # A forged one: Neutron still has the port, so it is looked at and stays.
            await asyncio.to_thread(notify, "port.delete.end", {"port_id": port})
            del cloud.neutron.ports[another]
            for _ in range(2):  # and one that is repeated
                await asyncio.to_thread(notify, "port.delete.end", {"port_id": another})
            await cloud.until_used(1)
        assert await cloud.used() == 1


@real_rabbit
async def test_a_broker_that_is_away_costs_a_warning_and_is_found_again(
    database: Database, rabbit: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(neutron_notifications, "RETRY_MAX_S", 1.0)
    cloud = await Cloud.make(database)
    rabbit.stop()
    with capture_logs() as logs:
        async with polling(cloud, listener_of(rabbit)):
            cloud.neutron.add_port(cloud.segment, SERVER)
            await cloud.until_used(1)
            async with asyncio.timeout(WAIT_S):
                while not any("not heard" in line["event"] for line in logs):
                    await asyncio.sleep(0.05)
            await asyncio.to_thread(rabbit.start)
            with notifying(rabbit) as notify:
                await asyncio.to_thread(notify, "network.create.start")
                async with asyncio.timeout(WAIT_S):
                    while not any("listening" in line["event"] for line in logs):
                        await asyncio.sleep(0.05)
                # What was missed meanwhile is looked for as soon as it listens; from here on it hears.
                cloud.neutron.add_port(cloud.segment, SERVER)
                await asyncio.to_thread(notify, "port.create.end")
                await cloud.until_used(2)
    assert not any("guest" in str(line) for line in logs), "no line has the address with its password"


@real_rabbit
async def test_the_queue_of_a_server_that_ended_is_gone(database: Database, rabbit: Broker) -> None:
    with notifying(rabbit) as notify:
        await asyncio.to_thread(notify, "network.create.start")
    listener = listener_of(rabbit)
    listening = asyncio.Event()
    task = asyncio.create_task(listener.run(lambda _: listening.set()))
    async with asyncio.timeout(WAIT_S):
        await listening.wait()
    task.cancel()
    await asyncio.wait([task])
    async with await aio_pika.connect(rabbit.url) as connection:
        channel = await connection.channel()
        with pytest.raises(aio_pika.exceptions.ChannelNotFoundEntity):
            await channel.declare_queue(listener._queue_name, passive=True)


async def test_many_doubts_read_all_ports(database: Database) -> None:
    """And few ask for no more than the ports that are named; of those that nobody knows, none."""
    cloud = await Cloud.make(database)
    ports = [cloud.neutron.add_port(None, SERVER) for _ in range(200)]
    view = NeutronView(full_s=3600)
    await run_round(cloud.ledger, cloud.neutron, view)
    asked: list[tuple[str, int]] = []
    real = cloud.neutron.list_ports

    async def list_ports(*, changed_since: str = "", ids: Any = (), **_: Any) -> Any:
        asked.append(("changes" if changed_since else "all", len(ids)))
        return await real(changed_since=changed_since, ids=ids)

    cloud.neutron.list_ports = list_ports  # type: ignore[method-assign]
    for doubted, expected in (
        ([a_uuid()], [("changes", 0)]), (ports[:2], [("changes", 0), ("all", 2)]), ([], [("changes", 0)]),
        (ports, [("all", 0)]), ([], [("changes", 0)]),
    ):  # fmt: skip
        asked.clear()
        for port in doubted:
            view.doubt(port)
        await run_round(cloud.ledger, cloud.neutron, view)
        assert asked == expected
