"""Where notifications go: a file, a webhook, RabbitMQ in the form of oslo.messaging's `messagingv2`.

Source: oslo.messaging, notify/notifier.py and _drivers/common.py, for the message and its envelope of version 2.0;
_drivers/impl_rabbit.py, notify_send, for the exchange, the queue of the topic's name and its binding.
"""

import asyncio
import hashlib
import hmac
import os
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import aiohttp
import msgspec
from msgspec import Struct

from roost.platform.delivery import Destination, Sent
from roost.platform.errors import reason_of
from roost.platform.outbox import Notification, Waiting
from roost.platform.settings import NotificationSettings

if TYPE_CHECKING:
    from aio_pika.abc import AbstractChannel, AbstractConnection, AbstractExchange

SIGNATURE_HEADER = "X-Roost-Signature"
MESSAGE_ID_HEADER = "X-Roost-Message-Id"
SUBJECTS_AT_ONCE = 8
"""Requests that a webhook has at once, each of another subject."""
RETRIED_STATUSES = frozenset({408, 425, 429})
"""Answers below 500 that say nothing of the message itself."""


def message_of(notification: Notification) -> dict[str, Any]:
    """Return the message as consumers know it, without what the transport adds."""
    return {
        "message_id": notification.message_id,
        "publisher_id": notification.publisher_id,
        "event_type": notification.event_type,
        "priority": notification.priority,
        "payload": notification.payload,
        "timestamp": str(notification.timestamp.astimezone(UTC).replace(tzinfo=None)),
    }


def envelope_of(notification: Notification) -> bytes:
    """Return the body of a messagingv2 message. _unique_id: by which oslo.messaging drops what it has taken before."""
    context = {f"_context_{name}": value for name, value in notification.request.items()}
    unique_id = notification.message_id.replace("-", "")
    message = message_of(notification) | context | {"_unique_id": unique_id}
    return msgspec.json.encode({"oslo.version": "2.0", "oslo.message": msgspec.json.encode(message).decode()})


def document_of(notification: Notification) -> bytes:
    """Return the JSON document of a line of the file and of a webhook's body."""
    return msgspec.json.encode(message_of(notification) | {"context": notification.request})


def signature_of(body: bytes, secret: str) -> str:
    """Return what the header of a webhook's request says: that whoever sent the body has the secret."""
    return f"sha256={hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()}"


class Failure(Struct, frozen=True):
    """Why a destination did not take a notification. is_away: it takes no other either."""

    reason: str
    is_away: bool


async def send_by_subject(
    batch: Sequence[Waiting],
    send_one: Callable[[Notification], Awaitable[Failure | None]],
    sent: Sent,
    *,
    subjects_at_once: int,
) -> None:
    """Send a batch, each subject's notifications one after another; `sent` has what came of it, even when cancelled.

    One that is not taken ends the turn of its subject. Once the destination is away, no turn goes on.
    """
    places = asyncio.Semaphore(subjects_at_once)
    ordered = sorted(batch, key=lambda waiting: (waiting.notification.subject, waiting.id))

    async def send_in_turn(waitings: Sequence[Waiting]) -> None:
        async with places:
            for waiting in waitings:
                if sent.away is not None:
                    return
                failure = await send_one(waiting.notification)
                if failure is None:
                    sent.delivered.append(waiting.id)
                    continue
                if failure.is_away:
                    sent.away = failure.reason
                else:
                    sent.refused[waiting.id] = failure.reason
                return

    async with asyncio.TaskGroup() as tasks:
        for _, waitings in groupby(ordered, key=lambda waiting: waiting.notification.subject):
            tasks.create_task(send_in_turn(list(waitings)))


class LogFile:
    """A file to which each notification is a line."""

    name = "log_file"

    def __init__(self, path: Path) -> None:
        self._path = path

    async def send(self, batch: Sequence[Waiting], *, timeout_s: float) -> Sent:
        """Append them, and have them on the disk."""
        lines = b"".join(document_of(waiting.notification) + b"\n" for waiting in batch)
        try:
            async with asyncio.timeout(timeout_s):
                await asyncio.to_thread(self._append, lines)
        except (OSError, TimeoutError) as error:
            return Sent(away=f"{self._path} cannot be written: {str(error) or 'it takes too long'}")
        return Sent(delivered=[waiting.id for waiting in batch])

    def _append(self, lines: bytes) -> None:
        with self._path.open("ab", buffering=0) as file:  # a batch in one piece: two services share the file
            file.write(lines)
            os.fsync(file.fileno())

    async def close(self) -> None:
        """Hold nothing between batches."""


class Webhook:
    """An address that takes each notification as a request of its own, signed."""

    name = "webhook"

    def __init__(self, url: str, secret: str) -> None:
        self._url = url
        parts = urlsplit(url)
        self._where = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"  # a path may be a secret
        self._secret = secret
        self._session: aiohttp.ClientSession | None = None

    async def send(self, batch: Sequence[Waiting], *, timeout_s: float) -> Sent:
        """Send them, those of one subject one after another."""
        self._session = self._session or aiohttp.ClientSession()
        sent = Sent()
        try:
            async with asyncio.timeout(timeout_s):
                await send_by_subject(batch, self._post, sent, subjects_at_once=SUBJECTS_AT_ONCE)
        except TimeoutError:
            sent.away = f"{self._where} took longer than {timeout_s:g} s"
        return sent

    async def _post(self, notification: Notification) -> Failure | None:
        assert self._session is not None
        body = document_of(notification)
        headers = {
            "Content-Type": "application/json",
            SIGNATURE_HEADER: signature_of(body, self._secret),
            MESSAGE_ID_HEADER: notification.message_id,
        }
        try:
            async with self._session.post(self._url, data=body, headers=headers, allow_redirects=False) as answer:
                status, words = answer.status, f"{self._where} answered {answer.status} {answer.reason or ''}".rstrip()
        except aiohttp.InvalidURL:  # its words are the whole address
            return Failure(f"{self._where} is no address", is_away=True)
        except (aiohttp.ClientError, OSError) as error:
            return Failure(f"{self._where} cannot be reached: {reason_of(error)}", is_away=True)
        if status < 300:
            return None
        return Failure(words, is_away=status >= 500 or status in RETRIED_STATUSES)

    async def close(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()


class Rabbit:
    """A RabbitMQ, where listeners of oslo.messaging find each notification in the queue of its topic and priority."""

    name = "rabbitmq"

    def __init__(self, url: str, *, exchange: str, topics: Sequence[str], durable: bool) -> None:
        self._url = url
        self._exchange_name = exchange
        self._topics = topics
        self._durable = durable
        self._connection: AbstractConnection | None = None
        self._channel: AbstractChannel | None = None
        self._exchange: AbstractExchange | None = None
        self._queues: set[str] = set()

    async def send(self, batch: Sequence[Waiting], *, timeout_s: float) -> Sent:
        """Publish them, each once the broker has confirmed the one before it of its subject."""
        from aio_pika.exceptions import AMQPException

        sent = Sent()
        try:
            async with asyncio.timeout(timeout_s):
                exchange = await self._open({waiting.notification.priority.lower() for waiting in batch})
                await send_by_subject(batch, partial(self._publish, exchange), sent, subjects_at_once=len(batch))
        except TimeoutError:
            sent.away = f"RabbitMQ took longer than {timeout_s:g} s"
        except (AMQPException, OSError, ExceptionGroup, RuntimeError, ValueError) as error:
            sent.away = _untaken(error.exceptions[0] if isinstance(error, ExceptionGroup) else error)
        if sent.away is not None:
            await self.close()
        return sent

    async def _open(self, priorities: set[str]) -> "AbstractExchange":
        from aio_pika import ExchangeType, connect

        if self._connection is None or self._connection.is_closed or self._exchange is None or self._channel is None:
            await self.close()
            self._connection = await connect(self._url)
            self._channel = await self._connection.channel(publisher_confirms=True, on_return_raises=True)
            self._exchange = await self._channel.declare_exchange(
                self._exchange_name, ExchangeType.TOPIC, durable=self._durable
            )
        for name in {f"{topic}.{priority}" for topic in self._topics for priority in priorities} - self._queues:
            queue = await self._channel.declare_queue(name, durable=self._durable)
            await queue.bind(self._exchange, routing_key=name)
            self._queues.add(name)
        return self._exchange

    async def _publish(self, exchange: "AbstractExchange", notification: Notification) -> Failure | None:
        from aio_pika import DeliveryMode, Message
        from aio_pika.exceptions import AMQPException

        for topic in self._topics:
            message = Message(
                envelope_of(notification),
                content_type="application/json",
                content_encoding="utf-8",
                delivery_mode=DeliveryMode.PERSISTENT,
                message_id=notification.message_id,
            )
            try:
                await exchange.publish(message, f"{topic}.{notification.priority.lower()}", mandatory=True)
            except (AMQPException, OSError, RuntimeError) as error:
                return Failure(_untaken(error), is_away=True)
        return None

    async def close(self) -> None:
        """Close the connection; one that is gone already is none."""
        connection, self._connection, self._channel, self._exchange = self._connection, None, None, None
        self._queues.clear()
        if connection is not None and not connection.is_closed:
            try:
                async with asyncio.timeout(1):
                    await connection.close()
            except Exception:  # noqa: S110 - whatever it was, nothing of it is used any more
                pass


def _untaken(error: Exception) -> str:
    return f"RabbitMQ does not take it: {str(error) or type(error).__name__}"


def destinations_of(settings: NotificationSettings, *, exchange: str, topics: Sequence[str]) -> list[Destination]:
    """Return the destinations that the settings name. exchange, topics: of this service's notifications."""
    destinations: list[Destination] = []
    if settings.log_file:
        destinations.append(LogFile(Path(settings.log_file)))
    if settings.webhook_url:
        destinations.append(Webhook(settings.webhook_url, settings.webhook_secret))
    if settings.amqp_url:
        destinations.append(
            Rabbit(settings.amqp_url, exchange=exchange, topics=topics, durable=settings.amqp_durable_queues)
        )
    return destinations
