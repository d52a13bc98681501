"""What every error of Roost has in common; each wing's `errors.py` opens its own tree below it."""

import os
import re
from enum import Enum
from typing import ClassVar


class Retry(Enum):
    """Whether the same request can succeed later."""

    NOW = "now"
    ELSEWHERE = "elsewhere"
    NEVER = "never"


class RoostError(Exception):
    """Roost could not do what was asked."""

    retry: ClassVar[Retry] = Retry.NEVER
    retry_after_s: float | None = None
    is_confidential: ClassVar[bool] = False
    """Whether its detail may name addresses or have other services' words: operators read it, callers do not."""

    def __str__(self) -> str:
        """Return the sentence that people read: the detail where there is one, else the docstring's first line."""
        if self.args and isinstance(self.args[0], str):
            return self.args[0]
        return self._title()

    def told(self) -> str:
        """Return the sentence that callers read: the docstring's where the detail is for operators alone."""
        return self._title() if self.is_confidential else str(self)

    def _title(self) -> str:
        return (type(self).__doc__ or type(self).__name__).strip().splitlines()[0]


class DatabaseUnavailable(RoostError):
    """The database does not answer at the moment; the request can be repeated."""

    retry = Retry.NOW
    is_confidential = True
    service: ClassVar[str] = "the database"
    is_logged: ClassVar[bool] = False
    """Whether it is in the log already when it is raised, so that who waits and tries again says nothing."""


class DatabaseAway(DatabaseUnavailable):
    """The database does not answer at the moment, and nothing was written: the same can be done again at any time."""


class TransactionVictim(DatabaseUnavailable):
    """PostgreSQL ended this transaction so that another could go on; the same again may well succeed."""


class LockTimeout(DatabaseUnavailable):
    """Another transaction held for too long what this one needs; the same again may well succeed."""


class RequestTimeout(DatabaseUnavailable):
    """The request took too long; it can be repeated."""

    is_confidential = False


class BodyTimeout(RoostError):
    """The request's body did not come to its end in time."""

    retry = Retry.NOW


class BodyTooLarge(RoostError):
    """The request's body has more bytes than are allowed."""


class DatabaseRefused(RoostError):
    """The database does not let Roost in."""


class DatabaseTooOld(RoostError):
    """The database is an older PostgreSQL than Roost works with."""


class BadRequest(RoostError):
    """The request is malformed."""


class NotFound(RoostError):
    """There is no such thing."""


class Conflict(RoostError):
    """The request does not fit the present state."""


TLS_ERROR = re.compile(r"\[SSL[^]]*\] (.*?)(?: \(_ssl\.c:\d+\))?")


def reason_of(error: BaseException) -> str:
    """Return why a file or a connection failed, in words for people: `Connection refused`, not its Python form."""
    cause = getattr(error, "os_error", error)  # aiohttp's errors of connecting hold the system's
    if isinstance(cause, TimeoutError) and not cause.errno:
        return "no answer in time"
    if refusal := getattr(error, "certificate_error", None):  # aiohttp's, for a certificate that is not trusted
        return str(getattr(refusal, "verify_message", "") or refusal)
    if match := TLS_ERROR.fullmatch(str(getattr(cause, "strerror", ""))):  # its errno is no number of the system's
        if match[1] == "wrong version number":  # what OpenSSL makes of an answer in plain http
            return "the answer is not TLS: is the address http?"
        return f"TLS: {match[1]}"
    if "Bad status line" in str(error):  # aiohttp's, for one that answers plain http with TLS
        return "the answer is not HTTP: is the address https?"
    if isinstance(cause, OSError) and cause.errno:
        return os.strerror(cause.errno) if cause.errno > 0 else str(cause.strerror)
    return str(getattr(cause, "strerror", "") or error) or type(error).__name__
