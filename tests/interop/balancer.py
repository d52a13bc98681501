"""The load balancer in front of Placement: where clients come to, and where they are sent on to, or away."""

import asyncio
import threading
from contextlib import suppress


class Balancer:
    """Carries bytes between 127.0.0.1:`port` and the port of `target`; None: clients are sent away (maintenance)."""

    def __init__(self, port: int, target: int | None) -> None:
        self._port, self._target = port, target
        self._loop = asyncio.new_event_loop()
        self._carrying: set[asyncio.Task[None]] = set()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()
        asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result(10)

    def send_to(self, target: int | None) -> None:
        """Send every client there from now on; connections that are open end."""

        async def send() -> None:
            self._target = target
            for task in self._carrying:
                task.cancel()

        asyncio.run_coroutine_threadsafe(send(), self._loop).result(10)

    async def _listen(self) -> None:
        await asyncio.start_server(self._serve, "127.0.0.1", self._port)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._carrying.add(task)
        writers = [writer]
        try:
            if self._target is None:
                writer.write(b"HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
                await writer.drain()
                return
            there, to = await asyncio.open_connection("127.0.0.1", self._target)
            writers.append(to)
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(_carry(reader, to))
                tasks.create_task(_carry(there, writer))
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            self._carrying.discard(task)
            for end in writers:
                with suppress(OSError):
                    end.close()


async def _carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
    writer.close()
