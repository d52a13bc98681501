"""The collector of cycles rests while much is made, and only then."""

import contextlib
import gc

import pytest

from roost.platform.garbage import without_collecting


@pytest.mark.parametrize("enabled", [True, False])
def test_the_collector_is_afterwards_as_it_was(enabled: bool) -> None:
    was_enabled = gc.isenabled()
    try:
        (gc.enable if enabled else gc.disable)()
        with contextlib.suppress(ZeroDivisionError), without_collecting():
            resting = not gc.isenabled()
            raise ZeroDivisionError
        assert resting
        assert gc.isenabled() is enabled
    finally:
        (gc.enable if was_enabled else gc.disable)()
