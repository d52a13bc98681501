"""What every HTTP API shares."""

import gc
from typing import Any

import pytest
from msgspec import Struct
from starlette.requests import Request

from roost.platform.errors import BadRequest
from roost.platform.http import BODY_KEY, read_json

MANY = 100_000


class Body(Struct):
    """Takes anything."""

    anything: Any = None


@pytest.mark.parametrize("end", [b"]}", b"]"])
async def test_a_body_of_many_small_things_is_decoded_without_looking_for_garbage(end: bytes) -> None:
    """Time and again looked through all that it has made, a worker did nothing else for ten seconds."""
    looked: list[str] = []

    def count(phase: str, _: dict[str, int]) -> None:
        looked.append(phase)

    body = b'{"anything":[' + b"[]," * MANY + b"[]" + end
    request = Request({"type": "http", BODY_KEY: body})
    gc.callbacks.append(count)
    try:
        read = await read_json(request, Body)
    except BadRequest:
        assert end == b"]"
    else:
        assert len(read.anything) == MANY + 1
    finally:
        gc.callbacks.remove(count)
    assert looked.count("start") < 10
    assert gc.isenabled()
