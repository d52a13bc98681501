"""A way between one agent and its API that a test can cut, in both directions or in one."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from urllib.parse import urlsplit

from roost.cli.asking.cloud_client import CloudClient

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class AgentProxy:
    """What `roost agent --api` is given: it names itself as the agents' listener, and carries bytes to the real one.

    requests, answers: cleared, nothing gets through in that direction; what was sent meanwhile arrives late, or never.
    """

    def __init__(self, listener_url: str) -> None:
        parts = urlsplit(listener_url)
        assert parts.hostname is not None
        assert parts.port is not None
        self._listener = parts.hostname, parts.port
        self.requests, self.answers = asyncio.Event(), asyncio.Event()
        self._carrying: set[asyncio.Task[None]] = set()
        self.heal()
        self.url = ""
        self._path_url = ""

    def cut(self, *, requests: bool = True, answers: bool = True) -> None:
        """Let nothing through in these directions."""
        if requests:
            self.requests.clear()
        if answers:
            self.answers.clear()

    def heal(self, *, lost: bool = False) -> None:
        """Let everything through. lost: but for what was sent meanwhile; its connections end, as after a long cut."""
        for task in self._carrying if lost else ():
            task.cancel()
        self.requests.set()
        self.answers.set()

    @classmethod
    @asynccontextmanager
    async def listening(cls, client: CloudClient) -> AsyncIterator["AgentProxy"]:
        """A proxy to the agents' listener of the client's Roost for as long as the block runs."""
        proxy = cls((await client.call("GET", "/agent/v1"))["url"])
        tasks: set[asyncio.Task[None]] = set()

        def serving(serve: Serve) -> Serve:
            async def served(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                task = asyncio.current_task()
                assert task is not None
                tasks.add(task)
                try:
                    with suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
                        await serve(reader, writer)
                finally:
                    writer.close()
                    tasks.discard(task)

            return served

        servers = [await asyncio.start_server(serving(one), "127.0.0.1", 0) for one in (proxy._name, proxy._carry)]
        proxy.url, proxy._path_url = (f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}" for server in servers)
        try:
            yield proxy
        finally:
            for server in servers:
                server.close()
            for task in list(tasks):
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _name(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer each request with where the agents' listener is."""
        body = json.dumps({"url": self._path_url}).encode()
        head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        while True:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(head.encode() + body)

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        reader_there, writer_there = await asyncio.open_connection(*self._listener)
        carrying = {
            asyncio.create_task(_pump(reader, writer_there, self.requests)),
            asyncio.create_task(_pump(reader_there, writer, self.answers)),
        }
        self._carrying |= carrying
        try:
            await asyncio.wait(carrying, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._carrying -= carrying
            for task in carrying:
                task.cancel()
            writer_there.close()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, may_pass: asyncio.Event) -> None:
    with suppress(OSError):
        while content := await reader.read(65536):
            await may_pass.wait()
            writer.write(content)
            await writer.drain()
