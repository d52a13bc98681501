"""A terminal for a test: a real pty that a command writes to, and what a person then sees of it."""

import fcntl
import os
import pty
import struct
import subprocess
import termios
from collections.abc import Mapping, Sequence

import pyte

LINES = 24


def shown_in_a_terminal(
    command: Sequence[str], *, columns: int, environment: Mapping[str, str], timeout_s: float = 120.0
) -> tuple[int, list[str]]:
    """Run a command with all its streams on a terminal; its exit status, and the lines to read there, scrolled back."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, columns, 0, 0))
    own = {**environment, "TERM": "xterm-256color"}
    for name in ("COLUMNS", "LINES", "NO_COLOR"):
        own.pop(name, None)
    process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=own)
    os.close(theirs)
    screen = pyte.HistoryScreen(columns, LINES, history=10_000, ratio=1.0)
    stream = pyte.ByteStream(screen)
    try:
        while True:
            try:
                written = os.read(ours, 65536)
            except OSError:  # the last writer has closed it
                break
            if not written:
                break
            stream.feed(written)
        status = process.wait(timeout_s)
    finally:
        os.close(ours)
        process.kill()
        process.wait()
    scrolled = ["".join(row[column].data for column in range(columns)) for row in screen.history.top]
    return status, [line.rstrip() for line in (*scrolled, *screen.display)]
