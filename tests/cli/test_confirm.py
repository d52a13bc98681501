"""Commands that ask first."""

import os
import pty
import subprocess
import sys
import time
from collections.abc import Coroutine
from typing import Any

import pytest
from typer.testing import CliRunner

from roost.cli.manage import app

DESTROY = ("guests", "destroy", "8ac24bcc-7d72-41c2-8421-8a49032503b8")
DESTROYED = 7


@pytest.mark.parametrize(
    ("answer", "status", "said"),
    [
        ("", 1, "nobody answers here: --yes does it without the question"),
        ("n\n", 1, "[y/N]"),
        ("y\n", DESTROYED, "[y/N]"),
    ],
)
def test_a_question_is_answered_or_ends_the_command(
    answer: str, status: int, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def destroy(work: Coroutine[Any, Any, int]) -> int:
        work.close()
        return DESTROYED

    monkeypatch.setattr("roost.cli.managing.guest_commands.run_manage", destroy)
    done = CliRunner().invoke(app, [*DESTROY], input=answer)
    assert done.exit_code == status
    assert said in done.output


AT_WORK = """
import asyncio
from roost.cli.managing.manage_options import ask_at_work
async def work() -> None:
    ask_at_work("Repair?")
asyncio.run(work())
"""


def test_one_interrupt_ends_a_question_that_is_asked_at_work() -> None:
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", AT_WORK], stdin=theirs, stdout=theirs, stderr=subprocess.PIPE, start_new_session=True,
        preexec_fn=lambda: os.close(os.open(os.ttyname(theirs), os.O_RDWR)),
    )  # fmt: skip
    try:
        assert b"[y/N]" in os.read(ours, 1000)
        time.sleep(0.5)  # until it reads: what comes just before is seen with the next key only, as of any input()
        os.write(ours, b"\x03")
        _, errors = process.communicate(timeout=30)
    finally:
        process.kill()
        os.close(ours)
        os.close(theirs)
    assert b"Abort" in errors
