"""Serves two images on 127.0.0.1, as the stand-in of Glance that Roost's own tests use: images.py PORT."""

import asyncio
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from fake_glance import FakeGlance

IMAGES = ("11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222")
"""As tempest.conf.in names them."""


async def main() -> None:
    """Serve until it is killed."""
    glance = FakeGlance(port=int(sys.argv[1]))
    for image_id in IMAGES:
        glance.add(image_id)
    await glance.start()
    await asyncio.Event().wait()


asyncio.run(main())
