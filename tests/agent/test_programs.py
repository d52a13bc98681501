"""Programs that do not end as they should."""

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest

from roost.agent.drivers import programs
from roost.agent.drivers.programs import ProgramFailed, end_process, find_process, run_program, start_daemon


class HeldProcess:
    """A process that the kernel does not let end."""

    returncode = None

    def send_signal(self, number: int) -> None:
        """Have no effect."""

    async def wait(self) -> int:
        await asyncio.Event().wait()
        return 0


async def test_a_program_that_cannot_be_killed_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    async def start(*_arguments: Any, **_options: Any) -> HeldProcess:
        return HeldProcess()

    monkeypatch.setattr(asyncio, "create_subprocess_exec", start)
    monkeypatch.setattr(programs, "KILL_S", 0.1)
    with pytest.raises(ProgramFailed, match="nft did not end within 0 s"):
        await asyncio.wait_for(run_program("nft", timeout_s=0.1), 5)


LISTENS = "import socket, sys, time; socket.socket(socket.AF_UNIX).bind(sys.argv[1]); time.sleep(600)"


async def test_a_program_that_goes_on_is_found_whatever_it_says_of_itself(tmp_path: Path) -> None:
    pid_file, ready, errors = tmp_path / "pid", tmp_path / "socket", tmp_path / "errors"
    await start_daemon([sys.executable, "-c", LISTENS, str(ready)], (), pid_file=pid_file, ready=ready, errors=errors)
    pid = find_process(pid_file, str(ready))
    assert pid is not None
    await end_process(pid)


async def test_a_program_whose_number_cannot_be_written_is_not_started(tmp_path: Path) -> None:
    ready = tmp_path / "socket"
    command, pid_file = [sys.executable, "-c", LISTENS, str(ready)], tmp_path / "gone" / "pid"
    with pytest.raises(ProgramFailed, match=r"cannot create .*gone/pid"):
        await start_daemon(command, (), pid_file=pid_file, ready=ready, errors=tmp_path / "errors")
    assert not ready.exists()
