"""Why something outside failed, as people read it: no error numbers, no tuples, no class names where words exist."""

import asyncio
import errno
import socket

import pytest

from roost.platform.errors import reason_of


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ConnectionRefusedError(errno.ECONNREFUSED, "Connect call failed ('127.0.0.1', 1)"), "Connection refused"),
        (PermissionError(errno.EACCES, "Permission denied", "/x"), "Permission denied"),
        (socket.gaierror(socket.EAI_NONAME, "Name or service not known"), "Name or service not known"),
        (TimeoutError(), "no answer in time"),
        (TimeoutError(errno.ETIMEDOUT, "x"), "Connection timed out"),
        (OSError("all of them failed"), "all of them failed"),
        (ValueError("expected a number"), "expected a number"),
        (asyncio.IncompleteReadError(b"", 4), "0 bytes read on a total of 4 expected bytes"),
        (EOFError(), "EOFError"),
    ],
)
def test_a_reason_is_in_words(error: Exception, words: str) -> None:
    assert reason_of(error) == words
