"""What the image service tells the compute service of the images that servers are made from."""

from collections.abc import Mapping
from typing import Protocol

from msgspec import Struct

from roost.platform.errors import Retry, RoostError


class ImageServiceUnavailable(RoostError):
    """The image service cannot be asked at the moment; the request can be repeated."""

    retry = Retry.NOW
    is_confidential = True


class Image(Struct, frozen=True, kw_only=True):
    """An image as the image service describes it. properties: those that are texts, by name.

    min_ram_mb, min_disk_gb: what a flavor must have for it, 0 for anything.
    """

    status: str
    min_ram_mb: int = 0
    min_disk_gb: int = 0
    properties: Mapping[str, str] = {}


class ImageClient(Protocol):
    """The images that servers are made from."""

    async def find_image(self, image_id: str, *, token: str | None) -> Image | None:
        """Return the image as whoever has the token sees it, None where that caller sees none.

        Raises ImageServiceUnavailable, whose sentence names the service and the cause.

        Remote: GET /v2/images/{image_id} of Glance.
        """

    def file_url(self, image_id: str) -> str:
        """Return where the image's bytes are.

        Remote: GET /v2/images/{image_id}/file of Glance.
        """
