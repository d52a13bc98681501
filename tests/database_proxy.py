"""A way to a PostgreSQL that a test can block: for one connection, as by a power loss, or for all, as by a stall."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path


class DatabaseProxy:
    """Carries bytes between 127.0.0.1:`port` and a PostgreSQL's socket; closes nothing by itself.

    cut_at_commit_after: once a statement with this text went by on a connection, its next COMMIT and all that follows
    on it goes nowhere; once only, and `cut` is set then. open: cleared, nothing gets through on any connection.
    """

    def __init__(self, socket: Path) -> None:
        self._socket = socket
        self.port = 0
        self.open = asyncio.Event()
        self.open.set()
        self.cut_at_commit_after = b""
        self.cut = asyncio.Event()

    @classmethod
    @asynccontextmanager
    async def listening(cls, dsn: str) -> AsyncIterator["DatabaseProxy"]:
        """A proxy to the private PostgreSQL at `dsn` for as long as the block runs."""
        proxy = cls(Path(dsn.partition("host=")[2].replace("%2F", "/")) / ".s.PGSQL.5432")
        tasks: set[asyncio.Task[None]] = set()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            tasks.add(task)
            with suppress(OSError, asyncio.CancelledError):
                await proxy._serve(reader, writer)
            tasks.discard(task)

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        proxy.port = server.sockets[0].getsockname()[1]
        try:
            yield proxy
        finally:
            server.close()
            for task in list(tasks):
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    @property
    def dsn(self) -> str:
        """Where a process connects through it."""
        return f"postgresql://roost@127.0.0.1:{self.port}/roost"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, to = await asyncio.open_unix_connection(str(self._socket))
        gone = asyncio.Event()
        claims = False

        async def forth() -> None:
            nonlocal claims
            while data := await reader.read(65536):
                claims = claims or bool(self.cut_at_commit_after and self.cut_at_commit_after in data)
                if claims and b"COMMIT" in data and not self.cut.is_set():
                    gone.set()
                    self.cut.set()
                if gone.is_set():
                    continue
                await self.open.wait()
                to.write(data)

        async def back() -> None:
            while data := await there.read(65536):
                await self.open.wait()
                if not gone.is_set():
                    writer.write(data)
            if gone.is_set():
                await asyncio.Event().wait()  # the client is not told, as nobody was who lost his cable

        tasks = [asyncio.create_task(forth()), asyncio.create_task(back())]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            to.close()
            writer.close()
