"""A driver in a process of its own, which does what lines on its input say: for tests that kill it."""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import msgspec
import structlog
import uvloop

from roost.agent.drivers import LaunchFailed
from roost.agent.drivers.qemu import host_network
from roost.agent.drivers.qemu.command import Account, Machine
from roost.agent.drivers.qemu.driver import QemuDriver, QemuOptions
from roost.agent.lease import now_s
from roost.platform.tls import peer_contexts
from roost.seams.agent import GuestOrder


async def obey(driver: QemuDriver, line: dict[str, Any]) -> Any:
    """Do what a line says, and return what is told of it."""
    match line["do"]:
        case "launch" | "change":
            order = msgspec.convert(line["order"], GuestOrder)
            return await getattr(driver, line["do"])(order)
        case "destroy":
            return await driver.destroy((line["server"], line["host"]), attempt=line["attempt"], disk=line["disk"])
        case "list":
            return msgspec.to_builtins(driver.list_guests())
        case "expect":
            return msgspec.to_builtins(await driver.expect(msgspec.convert(line["order"], GuestOrder)))
        case "hurry":
            return driver.hurry((line["server"], line["host"]))
        case "own":
            return [list(key) for key in await driver.own_changes()]
        case "limit":
            return driver.limit_nics(now_s() + line["s"])
        case "end":
            return driver.end_nics(None if line["s"] is None else now_s() + line["s"])
        case "close":
            return await driver.close()
    raise ValueError(line)


def tell(told: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(told) + "\n")
    sys.stdout.flush()


async def main(host: str, directory: str, listen: str, account: str, machine: str, *more: str) -> None:
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    host_network.RENEW_S = 3.0
    uid, gid = map(int, account.split(":"))
    options = QemuOptions(
        host=host,
        directory=Path(directory),
        bridges={"rack1": "br0"},
        machine=Machine(accel="tcg", type=machine, cpu="qemu64", cpu_name="qemu64"),
        account=Account(uid=uid, gid=gid),
        migrate_listen=listen,
        disks=Path(more[0]) if more[0] else None,
        tls=peer_contexts(*more[1:]) if more[1:] else None,
    )
    driver = QemuDriver(options)
    await driver.open()
    tell({"id": 0, "open": True})
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    tasks: set[asyncio.Task[None]] = set()

    async def answer(line: dict[str, Any]) -> None:
        told: dict[str, Any] = {"id": line["id"]}
        try:
            told["ok"] = await obey(driver, line)
        except LaunchFailed as error:
            told["error"] = str(error)
        except Exception as error:
            told["error"] = repr(error)  # else whoever asked waits for ever
        tell(told)

    while text := await reader.readline():
        tasks.add(task := asyncio.create_task(answer(json.loads(text))))
        task.add_done_callback(tasks.discard)


if __name__ == "__main__":
    uvloop.run(main(*sys.argv[1:]))
