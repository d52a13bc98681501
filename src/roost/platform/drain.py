"""Lets a load balancer turn away before a process that was told to end stops listening.

From the beginning of the drain `/readyz` and `/healthcheck` answer 503, all else is served as ever, and every answer
closes its connection: no idle one is left when the listener closes.
"""

import asyncio
from collections.abc import Awaitable

from starlette.types import ASGIApp, Message, Receive, Scope, Send


class Drain:
    """Whether this process is about to end."""

    def __init__(self) -> None:
        self.begun = False

    async def hold(self, drain_s: float, hurried: asyncio.Event) -> None:
        """Drain for drain_s, or until `hurried` is set."""
        self.begun = True
        if drain_s > 0:
            try:
                await asyncio.wait_for(hurried.wait(), drain_s)
            except TimeoutError:
                return

    def layer(self, app: ASGIApp) -> ASGIApp:
        """Return the listener, whose answers close their connections once the drain has begun."""

        async def draining(scope: Scope, receive: Receive, send: Send) -> None:
            def closing(message: Message) -> Awaitable[None]:
                if self.begun and message["type"] == "http.response.start":
                    message["headers"] = [*message.get("headers", ()), (b"connection", b"close")]
                return send(message)

            await app(scope, receive, closing)

        return draining
