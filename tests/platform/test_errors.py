"""Why something outside failed, as people read it: no error numbers, no tuples, no class names where words exist."""

import asyncio
import errno
import socket
import ssl

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
        (OSError(None, "Can not write request body"), "Can not write request body"),
        (OSError("all of them failed"), "all of them failed"),
        (
            ssl.SSLError(1, "[SSL: WRONG_VERSION_NUMBER] wrong version number (_ssl.c:1)"),
            "the answer is not TLS: is the address http?",
        ),
        (
            OSError(1, "[SSL: X] tlsv13 alert certificate required (_ssl.c:26)"),
            "TLS: tlsv13 alert certificate required",
        ),
        (ValueError("400, message='Bad status line'"), "the answer is not HTTP: is the address https?"),
        (ValueError("expected a number"), "expected a number"),
        (asyncio.IncompleteReadError(b"", 4), "0 bytes read on a total of 4 expected bytes"),
        (EOFError(), "EOFError"),
    ],
)
def test_a_reason_is_in_words(error: Exception, words: str) -> None:
    assert reason_of(error) == words
