"""What tests with real guests run on: skipped, with the name of what lacks, where that does not work."""

import asyncio
import os
import shutil
from collections.abc import AsyncIterator

import pytest
from tests.agent.qemu.site import PROGRAMS, Site, find_lack

from roost.agent.drivers.programs import ProgramFailed
from roost.agent.drivers.qemu.image import ensure_image


@pytest.fixture(scope="session")
def lack() -> str | None:
    return find_lack() or asyncio.run(_find_lack_of_image())


async def _find_lack_of_image() -> str | None:
    try:
        await ensure_image()
    except ProgramFailed as error:
        return f"an image: {error}"
    return None


@pytest.fixture
async def site(lack: str | None) -> AsyncIterator[Site]:
    """Hosts in namespaces. Where continuous integration could have installed what they lack, that is a failure."""
    if lack is not None:
        could = "CI" in os.environ and os.geteuid() == 0 and shutil.which("apt-get") is not None and lack in PROGRAMS
        (pytest.fail if could else pytest.skip)(f"real guests need {lack}")
    site = Site()
    try:
        yield site
    finally:
        await site.close()
