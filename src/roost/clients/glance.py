"""The image service over HTTP: one call of Glance, made with the token of the caller whom it is for.

Source: Image API v2, GET /v2/images/{image_id}.
"""

from typing import Annotated, Any

from msgspec import Meta, Struct

from roost.platform.http import canonical_uuid, is_uuid
from roost.platform.http_sessions import HttpSession, Reply, Unanswered
from roost.seams.image import Image, ImageServiceUnavailable

TIMEOUT_S = 5.0
CONNECTIONS_MAX = 20
NOT_SEEN = frozenset({403, 404})
"""What Glance answers of an image that is not there, or not for that caller."""


class _Document(Struct, frozen=True):
    """What Roost reads of an image, beside its own properties, which are members too."""

    status: str
    min_ram: Annotated[int, Meta(ge=0)] = 0
    min_disk: Annotated[int, Meta(ge=0)] = 0


class GlanceImages:
    """Implements roost.seams.image.ImageClient for one Glance, on a pool of connections that the first call opens."""

    def __init__(self, url: str, *, timeout_s: float = TIMEOUT_S) -> None:
        self._url = url.rstrip("/").removesuffix("/v2")
        self._session = HttpSession(timeout_s=timeout_s, connections_max=CONNECTIONS_MAX)

    async def find_image(self, image_id: str, *, token: str | None) -> Image | None:
        """See ImageClient.find_image. An id that is no UUID is none of Glance's, and not asked for."""
        if not is_uuid(image_id):
            return None
        url = f"{self._url}/v2/images/{canonical_uuid(image_id)}"
        try:
            reply = await self._session.ask("GET", url, headers={} if token is None else {"X-Auth-Token": token})
        except Unanswered as error:
            raise self._unavailable(image_id, str(error)) from error
        if reply.status in NOT_SEEN:
            return None
        if reply.status != 200:
            raise self._unavailable(image_id, f"it answers {reply.status}")
        try:
            return _read_image(reply)
        except Unanswered as error:
            raise self._unavailable(image_id, f"its answer is no image: {error}") from error

    def file_url(self, image_id: str) -> str:
        """See ImageClient.file_url."""
        return f"{self._url}/v2/images/{image_id}/file"

    async def close(self) -> None:
        """Close the connections."""
        await self._session.aclose()

    def _unavailable(self, image_id: str, cause: str) -> ImageServiceUnavailable:
        return ImageServiceUnavailable(
            f"The image service at {self._url} cannot be asked for image {image_id}: {cause}."
        )


def _read_image(reply: Reply) -> Image:
    members, document = reply.read(dict[str, Any]), reply.read(_Document)
    return Image(
        status=document.status,
        min_ram_mb=document.min_ram,
        min_disk_gb=document.min_disk,
        properties={name: value for name, value in members.items() if isinstance(value, str)},
    )
