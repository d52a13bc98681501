"""Marks: what an agent was told of how far the records were, which proves when they went back in time.

A mark is a number that moves with every commit that its agent can see, and a code that only who has the database's key
can make. The code names the agent, so that no agent can show another one's mark.
"""

import hmac
from hashlib import sha256

CODE_CHARS = 32


def write_mark(value: int, *, agent_id: str, key: bytes) -> str:
    """Return the mark as the agent keeps it."""
    return f"{value}.{_code(value, agent_id, key)}"


def read_mark(mark: str, *, agent_id: str, key: bytes) -> int | None:
    """Return the number in an agent's mark; None where it has none, or none of this database."""
    number, _, code = mark.partition(".")
    if not number.isascii() or not number.isdecimal():
        return None
    value = int(number)
    return value if hmac.compare_digest(code, _code(value, agent_id, key)) else None


def find_later(mark: str, *, agent_id: str, key: bytes, mark_known: int) -> int | None:
    """Return the number that an agent was told, if it proves that the records went back; else None.

    mark_known: the agent's number in the records.
    """
    mark_told = read_mark(mark, agent_id=agent_id, key=key)
    return mark_told if mark_told is not None and mark_told > mark_known else None


def _code(value: int, agent_id: str, key: bytes) -> str:
    return hmac.new(key, f"{agent_id} {value}".encode(), sha256).hexdigest()[:CODE_CHARS]
