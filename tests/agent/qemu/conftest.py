"""What tests with real guests run on: skipped, with the name of what lacks, where that does not work."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from tests.agent.qemu.site import Site, find_lack, find_lack_of_image, skip_for


@pytest.fixture(scope="session")
def lack() -> str | None:
    return find_lack() or asyncio.run(find_lack_of_image())


@pytest.fixture
async def site(lack: str | None) -> AsyncIterator[Site]:
    """Hosts in namespaces. Where continuous integration could have installed what they lack, that is a failure."""
    if lack is not None:
        skip_for(lack)
    site = Site()
    try:
        yield site
    finally:
        await site.close()
