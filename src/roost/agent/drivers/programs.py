"""How the driver runs programs: to their end, with a time limit, and with their own words in the error."""

import asyncio
import contextlib
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from roost.agent.drivers import LaunchFailed
from roost.platform.errors import RoostError

PROGRAM_S = 30.0
KILL_S = 5.0
LOOK_S = 0.02
PID_BYTES = 32
WORDS_MAX = 300
"""Characters of a program's error that are told."""


_daemons: dict[int, "subprocess.Popen[bytes]"] = {}
"""Programs that go on, until they are seen to have ended."""


class ProgramFailed(RoostError, LaunchFailed):
    """A program did not do what it was to do; the text is a sentence for people. complaint: all that it said."""

    def __init__(self, text: str, complaint: str = "") -> None:
        super().__init__(text)
        self.complaint = complaint


async def run_program(
    *arguments: str,
    text: str = "",
    timeout_s: float = PROGRAM_S,
    directory: Path | None = None,
) -> str:
    """Return what the program printed. text: its input.

    Its ends are files and no pipes, which a daemon that it leaves behind would keep open. Raises ProgramFailed.
    """
    with (
        tempfile.TemporaryFile() as input_file,
        tempfile.TemporaryFile() as output_file,
        tempfile.TemporaryFile() as errors,
    ):
        input_file.write(text.encode())
        input_file.seek(0)
        try:
            process = await asyncio.create_subprocess_exec(
                *arguments,
                stdin=input_file,
                stdout=output_file,
                stderr=errors,
                env={**os.environ, "LC_ALL": "C", "PATH": search_path()},
                cwd=directory,
            )
        except OSError as error:
            raise ProgramFailed(f"{arguments[0]} cannot be started: {error.strerror}") from error
        try:
            status = await asyncio.wait_for(process.wait(), timeout_s)
        except TimeoutError:
            raise ProgramFailed(f"{arguments[0]} did not end within {timeout_s:.0f} s") from None
        finally:
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError, TimeoutError):  # the kernel may hold it for as long
                    process.send_signal(signal.SIGKILL)
                    await asyncio.wait_for(process.wait(), KILL_S)
        if status != 0:
            errors.seek(0)
            complaint = errors.read().decode(errors="replace").strip()
            words = complaint.splitlines() or [f"exit status {status}"]
            raise ProgramFailed(f"{arguments[0]}: {words[-1][:WORDS_MAX]}", complaint)
        output_file.seek(0)
        return output_file.read().decode(errors="replace")


async def start_daemon(
    command: Sequence[str], fds: Sequence[int], *, pid_file: Path, ready: Path, errors: Path
) -> None:
    """Start a program that goes on without this one, and wait until it listens at `ready`. Raises ProgramFailed.

    Its process writes its number before it becomes the program: who starts it may die at once, and the program may be
    one that lies. fds: files that it has open under the same numbers. errors: the file of what it says.
    """
    environment = {**os.environ, "LC_ALL": "C", "PATH": search_path()}
    with errors.open("wb") as file:
        try:
            process = subprocess.Popen(
                ["sh", "-c", 'echo $$ >"$0" && exec "$@"', str(pid_file), *command],
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                pass_fds=fds,
                start_new_session=True,
                env=environment,
            )
        except OSError as error:
            raise ProgramFailed(f"{command[0]} cannot be started: {error.strerror}") from error
    deadline_s = time.monotonic() + PROGRAM_S
    while not ready.is_socket():
        if process.poll() is not None:
            words = errors.read_text(errors="replace").strip().splitlines() or [f"exit status {process.returncode}"]
            raise ProgramFailed(words[-1][:WORDS_MAX])
        if time.monotonic() > deadline_s:
            process.kill()
            raise ProgramFailed(f"{command[0]} does not listen after {PROGRAM_S:.0f} s")
        await asyncio.sleep(LOOK_S)
    _daemons[process.pid] = process
    for pid in [pid for pid, daemon in _daemons.items() if daemon.poll() is not None]:
        del _daemons[pid]


def search_path() -> str:
    """Return where programs are looked for: also where only root's shell looks."""
    return f"{os.environ.get('PATH', '/usr/bin:/bin')}:/usr/sbin:/sbin"


def find_process(pid_file: Path, *words: str) -> int | None:
    """Return the process that the file names, if it lives and its command line has all these words.

    The file may be written by an account that is not trusted: a link or a pipe in its place names none.
    """
    try:
        pid = int(_read_start(pid_file))
        command_line = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (OSError, ValueError, IndexError):
        return None
    return pid if state != "Z" and {word.encode() for word in words} <= set(command_line) else None


def _read_start(path: Path) -> bytes:
    """Return the first bytes of a file, and never wait for them. Raises OSError, also where it is a link."""
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        return os.read(fd, PID_BYTES)
    finally:
        os.close(fd)


async def end_process(pid: int, *, timeout_s: float = PROGRAM_S) -> None:
    """Kill the process, and wait until it is gone. Raises ProgramFailed."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    await wait_process(pid, timeout_s=timeout_s)


async def wait_process(pid: int, *, timeout_s: float) -> None:
    """Wait until the process is gone. Raises ProgramFailed."""
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        gone = asyncio.Event()
        asyncio.get_running_loop().add_reader(fd, gone.set)
        await asyncio.wait_for(gone.wait(), timeout_s)
    except TimeoutError:
        raise ProgramFailed(f"process {pid} did not end within {timeout_s:.0f} s") from None
    finally:
        asyncio.get_running_loop().remove_reader(fd)
        os.close(fd)
