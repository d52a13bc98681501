"""Programs that do not end as they should."""

import asyncio
from typing import Any

import pytest

from roost.agent.drivers import programs
from roost.agent.drivers.programs import ProgramFailed, run_program


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
