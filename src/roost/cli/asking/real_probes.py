"""How guests are seen from outside: by the echo port and the shell that the built-in image has, over their network."""

import asyncio
import contextlib
import re
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

from roost.agent.drivers.qemu.image import ECHO_PORT, SHELL_PORT
from roost.cli.asking.real_network import client_socket

CONNECT_S = 3.0
ROUND_S = 30.0
"""How long a client waits for what it sent: longer than TCP needs to repeat it."""
PAUSE_S = 0.02
SHELL_S = 60.0
PINGS_RECEIVED = re.compile(r"(\d+) packets received")

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@contextlib.asynccontextmanager
async def connected(namespace: str, address: str, port: int) -> AsyncIterator[Streams]:
    """Hold a connection from a namespace to a guest for as long as the block runs. Raises OSError."""
    own = client_socket(namespace)
    try:
        async with asyncio.timeout(CONNECT_S):
            await asyncio.get_running_loop().sock_connect(own, (address, port))
        reader, writer = await asyncio.open_connection(sock=own)
    except BaseException:
        own.close()
        raise
    try:
        yield reader, writer
    finally:
        writer.close()


async def answers(namespace: str, address: str) -> bool:
    """Return whether the guest with that address answers its echo port."""
    with contextlib.suppress(OSError, EOFError):
        async with connected(namespace, address, ECHO_PORT) as streams, asyncio.timeout(CONNECT_S):
            return await _echo(streams, b"there?\n")
    return False


async def _echo(streams: Streams, line: bytes) -> bool:
    reader, writer = streams
    writer.write(line)
    return await reader.readexactly(len(line)) == line


@dataclass
class EchoCount:
    """What a client saw that sent one line after the other. worst_s: its longest wait. lost: why it ended."""

    rounds: int = 0
    worst_s: float = 0.0
    lost: str | None = None


@contextlib.asynccontextmanager
async def echo_client(namespace: str, address: str) -> AsyncIterator[EchoCount]:
    """Hold one TCP connection to a guest while the block runs, and have it echo one line after the other."""
    count = EchoCount()
    async with connected(namespace, address, ECHO_PORT) as streams:
        talking = asyncio.create_task(_talk(streams, count))
        try:
            yield count
        finally:
            talking.cancel()
            await asyncio.wait([talking])


async def _talk(streams: Streams, count: EchoCount) -> None:
    while count.lost is None:
        began_s = time.monotonic()
        try:
            async with asyncio.timeout(ROUND_S):
                if not await _echo(streams, f"{count.rounds}\n".encode()):
                    count.lost = "it was answered what it had not sent"
        except TimeoutError:
            count.lost = f"it was not answered for {ROUND_S:.0f} s"
        except (OSError, EOFError):
            count.lost = "it was closed"
        count.rounds += count.lost is None
        count.worst_s = max(count.worst_s, time.monotonic() - began_s)
        await asyncio.sleep(PAUSE_S)


async def ask_shell(namespace: str, address: str, script: str) -> str:
    """Return what a script prints in a guest. Raises OSError, TimeoutError."""
    async with connected(namespace, address, SHELL_PORT) as (reader, writer), asyncio.timeout(SHELL_S):
        writer.write(f"exec 2>&1\n{script}\nexit\n".encode())
        return (await reader.read(-1)).decode(errors="replace")


def ping_script(addresses: Sequence[str]) -> str:
    """Return what pings each address once, in order."""
    return "\n".join(f"ping -c 1 -W 3 {address}" for address in addresses)


def spoof_script(*, gateway: str, address: str, prefix: int, mac: str) -> str:
    """Return what pings the gateway: as the guest itself, with another address, with another MAC, as itself again.

    Neighbours are forgotten after each change, so that the gateway would learn where to answer.
    """
    ask = f"ping -c 2 -W 1 {gateway}"
    return "\n".join([
        "own=$(cat /sys/class/net/eth0/address)",
        ask,
        f"ip address add {address}/{prefix} dev eth0; ip neigh flush dev eth0",
        f"ping -c 2 -W 1 -I {address} {gateway}",
        f"ip address del {address}/{prefix} dev eth0",
        f"ip link set eth0 address {mac}; ip neigh flush dev eth0",
        ask,
        "ip link set eth0 address $own; ip neigh flush dev eth0",
        ask,
    ])  # fmt: skip


def count_received(printed: str) -> list[int]:
    """Return how many answers each ping had."""
    return [int(received) for received in PINGS_RECEIVED.findall(printed)]
