"""What a person is told while a Roost does not answer."""

import asyncio
from typing import Any

import pytest

from roost.cli.asking import cloud_client
from roost.cli.asking.cloud_client import CloudClient
from roost.platform.http_sessions import Reply


class Silent:
    """A session whose answers take longer than a person waits without a word."""

    async def ask(self, *_: Any, **__: Any) -> Reply:
        await asyncio.sleep(0.05)
        return Reply(status=200, headers={}, body=b"{}")


@pytest.mark.parametrize(("is_terminal", "told"), [(True, 1), (False, 0)])
async def test_a_long_wait_is_told_once_at_a_terminal(
    is_terminal: bool, told: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cloud_client, "WAIT_TOLD_S", 0.01)
    monkeypatch.setattr("sys.stderr.isatty", lambda: is_terminal)
    client = CloudClient(Silent(), "http://roost.example:8778")  # type: ignore[arg-type]
    for _ in range(2):
        await client.call("GET", "/compute/v2.1/servers")
    assert capsys.readouterr().err.count("http://roost.example:8778 has not answered for") == told
