"""What an agent writes, and what it does where there is no room for it."""

import os
from pathlib import Path

import pytest

from roost.agent.drivers.state import write_whole


def _have_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    def sync(_fd: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", sync)


@pytest.mark.parametrize("content", [b"short", b"longer than it was", b""])
def test_what_has_room_where_it_was_is_written_on_a_full_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes
) -> None:
    path = tmp_path / "meta.json"
    write_whole(path, b"as it was")
    _have_no_room(monkeypatch)
    write_whole(path, content)
    assert path.read_bytes() == content
    assert list(tmp_path.iterdir()) == [path]


def test_what_is_new_or_too_large_is_refused_on_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "meta.json"
    write_whole(path, b"as it was")
    _have_no_room(monkeypatch)
    for other, content in ((path, bytes(1_000_000)), (tmp_path / "new", b"")):
        with pytest.raises(OSError, match="No space left"):
            write_whole(other, content)
    assert path.read_bytes() == b"as it was"
    assert list(tmp_path.iterdir()) == [path]
