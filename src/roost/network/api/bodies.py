"""What bodies have in common: texts, tags of segments, ids, and what is refused by name, never silently dropped."""

from typing import Annotated

from msgspec import Meta

from roost.network.errors import InvalidInput
from roost.platform.http import canonical_uuid, is_uuid

Text = Annotated[str, Meta(max_length=255, pattern="^[^\x00]*$")]
SegmentationId = Annotated[int, Meta(ge=0)] | Annotated[str, Meta(pattern="^[0-9]{1,8}$")]
"""A number, or its digits, as `openstack network create` sends it."""
SEGMENTATION_ID_MAX = 16777215
NETWORK_TYPES = ("flat", "vlan", "vxlan", "gre", "geneve", "local")


def parse_uuid(name: str, text: str) -> str:
    """The id, canonical; name: of the attribute. Raises InvalidInput."""
    if not is_uuid(text):
        raise InvalidInput(f"{name}: '{text[:64]}' is not a UUID.")
    return canonical_uuid(text)


def parse_segmentation_id(prefix: str, given: int | str | None) -> int | None:
    """As a number; prefix: of the attribute's name. Raises InvalidInput."""
    if given is None:
        return None
    if int(given) > SEGMENTATION_ID_MAX:
        raise InvalidInput(f"{prefix}segmentation_id {given}: expected at most {SEGMENTATION_ID_MAX}.")
    return int(given)


def check_type(prefix: str, kind: str | None, physical_network: str | None, segmentation_id: int | None) -> None:
    """Whether a segment can be of this type, with these; prefix: of the attributes' names. Raises InvalidInput."""
    if kind is None and segmentation_id is not None:
        raise InvalidInput(f"{prefix}segmentation_id needs a {prefix}network_type.")
    if kind is not None and kind not in NETWORK_TYPES:
        raise InvalidInput(f"{prefix}network_type '{kind}': expected one of {', '.join(NETWORK_TYPES)}.")
    if kind in ("flat", "vlan") and not physical_network:
        raise InvalidInput(f"{prefix}network_type {kind} needs a {prefix}physical_network.")
    if kind == "vlan" and segmentation_id is not None and not 1 <= segmentation_id <= 4094:
        raise InvalidInput(f"{prefix}segmentation_id {segmentation_id}: a vlan has one from 1 to 4094.")
