"""A Glance over real HTTP: images that only some tokens see, outages, stalls and garbage.

Source: Image API v2, GET /v2/images/{image_id}. Glance is not Roost's, so a stand-in of it is allowed.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from roost.clients.glance import GlanceImages


@dataclass
class FakeGlance:
    """Serves from `start` to `stop`, on a free port unless one is given; `asked` is (image, token) of each request.

    hidden: images that are shown to nobody. answer: what is answered instead of any image. stalls: nothing is.
    """

    images: dict[str, dict[str, Any]] = field(default_factory=dict)
    hidden: set[str] = field(default_factory=set)
    asked: list[tuple[str, str | None]] = field(default_factory=list)
    answer: dict[str, Any] | None = None
    stalls: bool = False
    cookies: list[str] = field(default_factory=list)
    connections: set[Any] = field(default_factory=set)
    port: int = 0
    _runner: web.AppRunner | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def add(self, image_id: str, **members: Any) -> str:
        """An image that is active, with these members besides or instead; its id."""
        self.images[image_id] = {
            "id": image_id, "status": "active", "min_ram": 0, "min_disk": 0, "size": None, "protected": False,
            "tags": ["a"], "name": "cirros", **members,
        }  # fmt: skip
        return image_id

    async def start(self) -> None:
        app = web.Application()
        app.router.add_get("/v2/images/{image_id}", self._show)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self.port).start()
        self.port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        if self._runner:
            await self._runner.cleanup()

    async def _show(self, request: web.Request) -> web.Response:
        image_id = request.match_info["image_id"]
        self.asked.append((image_id, request.headers.get("X-Auth-Token")))
        self.cookies.append(request.headers.get("Cookie", ""))
        self.connections.add(request.transport)
        if self.stalls:
            await asyncio.sleep(60)
        if self.answer is not None:
            return web.Response(**self.answer)
        if image_id in self.hidden:
            return web.json_response({"message": "not yours"}, status=403)
        if image_id not in self.images:
            return web.json_response({"message": "none"}, status=404)
        response = web.json_response(self.images[image_id])
        response.set_cookie("session", "of-one-caller")
        return response


@asynccontextmanager
async def a_glance() -> AsyncIterator[tuple[FakeGlance, GlanceImages]]:
    """A Glance, and the client of it."""
    glance = FakeGlance()
    await glance.start()
    images = GlanceImages(glance.url)
    try:
        yield glance, images
    finally:
        await images.close()
        await glance.stop()
