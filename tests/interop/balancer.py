"""The load balancer in front of Placement, which can hold requests back while nobody may write.

HAProxy does so where its frontend's `maxconn` is set to 0 for a while. Clients see a Placement that answers late.
"""

import asyncio
import threading
from contextlib import suppress


class Balancer:
    """Carries requests from 127.0.0.1:`port` to the port `target`; clients keep their connections when it changes."""

    def __init__(self, port: int, target: int) -> None:
        self._port, self._target = port, target
        self._loop = asyncio.new_event_loop()
        self._open = asyncio.Event()
        self._open.set()
        self._unanswered: set[asyncio.StreamWriter] = set()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result(10)

    def hold(self) -> None:
        """Hold back every request that begins from now on; returns when all others are answered."""

        async def hold() -> None:
            self._open.clear()
            while self._unanswered:
                await asyncio.sleep(0.05)

        asyncio.run_coroutine_threadsafe(hold(), self._loop).result(120)

    def send_to(self, target: int) -> None:
        """Send what is held back, and all that comes, there."""

        async def send() -> None:
            self._target = target
            self._open.set()

        asyncio.run_coroutine_threadsafe(send(), self._loop).result(10)

    def close(self) -> None:
        """Close all connections."""

        async def close() -> None:
            self._server.close()
            tasks = asyncio.all_tasks() - {asyncio.current_task()}
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

        asyncio.run_coroutine_threadsafe(close(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    async def _listen(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self._port)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there: asyncio.StreamWriter | None = None
        answering: asyncio.Task[None] | None = None
        to = 0
        try:
            with suppress(OSError):
                while data := await reader.read(1 << 16):
                    if writer not in self._unanswered:
                        await self._open.wait()
                        self._unanswered.add(writer)
                    if there is None or there.is_closing() or to != self._target:
                        if answering is not None and there is not None:
                            answering.cancel()
                            there.close()
                        to = self._target
                        answers, there = await asyncio.open_connection("127.0.0.1", to)
                        answering = asyncio.create_task(self._answer(answers, there, writer))
                    there.write(data)
                    await there.drain()
        finally:
            self._unanswered.discard(writer)
            if answering is not None:
                answering.cancel()
            for end in (there, writer):
                if end is not None:
                    end.close()

    async def _answer(
        self, answers: asyncio.StreamReader, there: asyncio.StreamWriter, writer: asyncio.StreamWriter
    ) -> None:
        """Carry answers until the server goes; a client whose request is not sent yet learns nothing of that."""
        with suppress(OSError):
            while data := await answers.read(1 << 16):
                self._unanswered.discard(writer)
                writer.write(data)
                await writer.drain()
        there.close()
        if writer in self._unanswered:
            writer.close()
