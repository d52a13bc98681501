"""RabbitMQ, with oslo.messaging's own listener at its other end."""

import asyncio
import json
import os
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import aio_pika
import msgspec
import pytest
from aio_pika.abc import AbstractQueue
from msgspec.structs import replace
from tests.cluster import QUICK, Cluster, boot, cluster, network_ids, until
from tests.platform.test_delivery import delivering, make_due, notification, state_of
from tests.rabbitmq import MISSING, Broker, broker, listening

from roost.cli.asking.cloud_client import CloudClient
from roost.platform.database import Database
from roost.platform.destinations import Rabbit
from roost.platform.outbox import Outbox

pytestmark = pytest.mark.skipif(MISSING is not None and not os.environ.get("CI"), reason=str(MISSING))

OUTBOX = Outbox("compute", host="here", destinations=("rabbitmq",))
TOPIC = "versioned_notifications"
CLOUD = """
flavors: [{name: small, vcpus: 1, ram_mb: 512, disk_gb: 1}]
networks:
  - name: public
    segments:
      - {name: rack1, physical_network: rack1, segmentation_id: 101, subnets: [{cidr: 10.1.0.0/27}]}
hosts:
  - {name: h1, vcpus: 64, ram_mb: 32768, disk_gb: 800, physical_networks: [rack1]}
"""
MANAGE = [sys.executable, "-c", "from roost.cli.entry import run_manage; run_manage()"]


@pytest.fixture(scope="module")
def rabbit() -> Iterator[Broker]:
    with broker() as made:
        yield made


def destination(rabbit: Broker, topic: str = TOPIC) -> Rabbit:
    return Rabbit(rabbit.url, exchange="nova", topics=(topic,), durable=False)


async def write(database: Database, *numbers: int, priority: str = "INFO") -> None:
    async with database.transaction() as tx:
        await OUTBOX.write(tx, [replace(notification("a", number), priority=priority) for number in numbers])


async def test_a_listener_of_oslo_messaging_hears_each_notification_in_order(
    database: Database, rabbit: Broker
) -> None:
    with listening(rabbit, "nova", TOPIC) as heard:
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


async def test_what_reaches_no_queue_is_sent_again(database: Database, rabbit: Broker) -> None:
    name = "deleted.info"
    async with (
        await aio_pika.connect(rabbit.url) as connection,
        delivering(database, destination(rabbit, "deleted"), OUTBOX) as deliverer,
    ):
        channel = await connection.channel()
        await write(database, 0)
        await deliverer.work()
        await channel.queue_delete(name)
        await write(database, 1)
        assert not await deliverer.deliver()
        assert (await state_of(database)).waiting == 1
        await make_due(database)
        await deliverer.work()
        message = await (await channel.get_queue(name)).get(no_ack=True)
        assert msgspec.json.decode(msgspec.json.decode(message.body)["oslo.message"])["payload"]["number"] == 1


async def test_a_boot_is_heard_and_waits_for_no_broker_and_no_receiver(rabbit: Broker) -> None:
    """Of a whole Roost: the broker is there, is away, is back; a webhook takes connections and never answers."""
    silent = socket.create_server(("127.0.0.1", 0), backlog=1000)
    environment = {
        **QUICK,
        "ROOST_NOTIFICATIONS_AMQP_URL": rabbit.url,
        "ROOST_NOTIFICATIONS_WEBHOOK_URL": f"http://127.0.0.1:{silent.getsockname()[1]}/",
        "ROOST_NOTIFICATIONS_WEBHOOK_SECRET": "between us",
        "ROOST_NOTIFICATIONS_TIMEOUT_S": "2",
        "ROOST_NOTIFICATIONS_RETRY_MAX_S": "1",
        "ROOST_NOTIFICATIONS_HOST": "here",
    }
    with (
        silent,
        cluster(environment) as made,
        listening(rabbit, "nova", TOPIC) as heard_of_servers,
        listening(rabbit, "neutron", "notifications") as heard_of_ports,
    ):
        made.serve()
        made.load(CLOUD)
        made.agent()
        async with CloudClient.connect(made.url) as client:
            network_id = (await network_ids(client))["public"]
            async with copies_of(rabbit, "neutron") as copies:
                (server_id,) = await booted(client, network_id, "first")
                assert await creations(heard_of_servers, [server_id]) == {server_id: CREATED}
                created = await heard_until(heard_of_ports, "port.create.end")
                port = created["payload"]["port"]
                assert (port["network_id"], port["device_id"]) == (network_id, server_id)
                assert created["publisher_id"] == "network.here"
                assert (await copies.get(no_ack=True)).routing_key == "notifications.info"
            rabbit.stop()
            server_ids = await booted(client, network_id, "second")
            await until_waiting(made)
            server_ids += await booted(client, network_id, "third", count=2)
            rabbit.start()
            assert await creations(heard_of_servers, server_ids) == dict.fromkeys(server_ids, CREATED)


CREATED = [
    (f"instance.create.{phase}", "nova-compute:h1", "InstanceCreatePayload", "1.13") for phase in ("start", "end")
]


@asynccontextmanager
async def copies_of(rabbit: Broker, exchange: str) -> AsyncIterator[AbstractQueue]:
    """A queue of all that is published in the exchange. A listener's own hears of its topic in every exchange."""
    async with await aio_pika.connect(rabbit.url) as connection:
        channel = await connection.channel()
        queue = await channel.declare_queue(exclusive=True)
        await queue.bind(exchange, "#")
        yield queue


async def booted(client: CloudClient, network_id: str, name: str, *, count: int = 1) -> list[str]:
    """The ids of servers that are ACTIVE."""
    await boot(client, network_id, count=count, name=name)

    async def list_active() -> list[str]:
        return [
            server["id"]
            for server in await client.list_servers()
            if server["name"].startswith(name) and server["status"] == "ACTIVE"
        ]

    async def active() -> bool:
        return len(await list_active()) == count

    await until(active, what="a boot waits for whoever is told of it")
    return await list_active()


async def heard_until(heard: Callable[[], Any], event_type: str) -> Any:
    """The next notification of that type."""
    while True:
        one = await asyncio.to_thread(heard)
        if one["event_type"] == event_type:
            return one


async def creations(heard: Callable[[], Any], server_ids: list[str]) -> dict[str, list[tuple[str, ...]]]:
    """Server id -> what was heard of its creation, in order, once the end of each was."""
    told: dict[str, list[tuple[str, ...]]] = {server_id: [] for server_id in server_ids}
    while not all(any(event[0] == "instance.create.end" for event in events) for events in told.values()):
        one = await asyncio.to_thread(heard)
        if one["event_type"].startswith("instance.create."):
            payload = one["payload"]
            event = (
                one["event_type"],
                one["publisher_id"],
                payload["nova_object.name"],
                payload["nova_object.version"],
            )
            told[payload["nova_object.data"]["uuid"]].append(event)
    return told


async def until_waiting(made: Cluster) -> None:
    """Until `roost-manage notifications` says why, and how long, both destinations' notifications wait."""
    command = [*MANAGE, "notifications", "--data-dir", str(made.data_dir), "--json"]

    async def waiting() -> bool:
        done = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, timeout=60)
        assert done.stdout, done.stderr
        listed = json.loads(done.stdout)["destinations"]
        states = [
            (state["name"], state["reason"] or "") for state in listed
            if state["service"] == "compute" and state["waiting"] > 0 and state["waiting_s"] > 0
        ]  # fmt: skip
        reasons = dict(states)
        return (
            done.returncode == 3
            and "RabbitMQ does not take it" in reasons.get("rabbitmq", "")
            and "took longer than 2 s" in reasons.get("webhook", "")
        )

    await until(waiting, what="the destinations that are away are not told of")
