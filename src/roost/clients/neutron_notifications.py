"""Neutron's notifications as wake-ups: that ports, subnets or segments have changed, and which ports may be gone.

Nothing else of a message is believed or kept: what it was is asked of Neutron. One that is lost, repeated or forged
makes a look late, or one too many.

Source: oslo.messaging, notify/messaging.py and _drivers/common.py (messagingv2, envelope 2.0); Neutron,
pecan_wsgi/hooks/notifier.py, for the event types and what is in them.
"""

import asyncio
import socket
import uuid
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec
import structlog
from msgspec import Struct

from roost.platform.settings import NeutronSettings

if TYPE_CHECKING:
    from aio_pika.abc import AbstractQueue

RESOURCES = frozenset({"port", "subnet", "segment", "network"})
"""Of whose changes addresses follow."""
PRIORITY = "info"
EXPIRES_MS = 60_000
"""How long the queue of a server that is gone may stay: a broker that saw the connection end deletes it at once."""
QUEUE_MESSAGES_MAX = 10_000
CLOSE_TIMEOUT_S = 1.0
RETRY_FIRST_S, RETRY_MAX_S = 1.0, 60.0

log = structlog.get_logger()


class Heard(Struct, frozen=True):
    """Something of Neutron's changed. port_gone: the port that is said to be deleted, "" for none."""

    port_gone: str = ""


class _Envelope(Struct, frozen=True):
    message: str = msgspec.field(name="oslo.message")


class _Message(Struct, frozen=True):
    event_type: str
    payload: Any = None


_envelopes = msgspec.json.Decoder(_Envelope)
_messages = msgspec.json.Decoder(_Message)


def read_message(body: bytes) -> Heard | None:
    """Return what a message tells, None for nothing that matters here: another event, or no notification at all."""
    try:
        message = _messages.decode(_envelopes.decode(body).message)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    resource, _, rest = message.event_type.partition(".")
    if resource not in RESOURCES or not rest.endswith(".end"):
        return None
    port = message.payload.get("port_id") if isinstance(message.payload, dict) else None
    return Heard(port if (resource, rest) == ("port", "delete.end") and isinstance(port, str) else "")


class NeutronListener:
    """Who listens to the notifications of the Neutron of the settings, on a queue of this process alone."""

    def __init__(self, settings: NeutronSettings) -> None:
        self._settings = settings
        self._queue_name = f"roost-placement.{socket.gethostname()}.{uuid.uuid4().hex[:8]}"
        self._retry_s = RETRY_FIRST_S

    async def run(self, hear: Callable[[Heard], None]) -> None:
        """Listen until cancelled; a broker that is away is a warning, and tried again after 1, 2, 4, … 60 s.

        hear: also called once it listens, since nobody knows what was missed.
        """
        from aio_pika.exceptions import AMQPException

        while True:
            reason = "it ended the connection"
            try:
                await self._listen(hear)
            except (AMQPException, OSError, TimeoutError, RuntimeError, ValueError) as error:
                reason = str(error) or type(error).__name__
            log.warning(
                "Neutron's notifications are not heard; its ports are still polled",
                again_in_s=self._retry_s, reason=reason,
            )  # fmt: skip
            await asyncio.sleep(self._retry_s)
            self._retry_s = min(self._retry_s * 2, RETRY_MAX_S)

    async def _listen(self, hear: Callable[[Heard], None]) -> None:
        from aio_pika import connect

        async with asyncio.timeout(self._settings.timeout_s):
            connection = await connect(self._settings.amqp_url)
        try:
            async with asyncio.timeout(self._settings.timeout_s):
                channel = await connection.channel(publisher_confirms=False)
                queue = await channel.declare_queue(
                    self._queue_name,
                    exclusive=True,
                    arguments={"x-expires": EXPIRES_MS, "x-max-length": QUEUE_MESSAGES_MAX},
                )
                for topic in self._settings.amqp_topics:
                    # The exchange is Neutron's to declare: how, it alone knows.
                    await queue.bind(self._settings.amqp_exchange, routing_key=f"{topic}.{PRIORITY}")
            await self._hear_all(queue, hear)
        finally:
            with suppress(Exception):  # whatever it was, nothing of it is used any more
                async with asyncio.timeout(CLOSE_TIMEOUT_S):
                    await connection.close()

    async def _hear_all(self, queue: "AbstractQueue", hear: Callable[[Heard], None]) -> None:
        log.info("listening to Neutron's notifications", queue=self._queue_name)
        self._retry_s = RETRY_FIRST_S
        async with queue.iterator(no_ack=True) as messages:
            hear(Heard())
            async for message in messages:
                if (heard := read_message(message.body)) is not None:
                    hear(heard)
