"""Flavors in the Compute API's shapes."""

import re
from collections.abc import Mapping
from typing import Annotated, Any

from msgspec import UNSET, Meta, Struct, UnsetType, field
from starlette.requests import Request
from starlette.responses import Response

from roost.compute.api.requests import (
    INTEGER_MAX,
    Name,
    Whole,
    check_parameters,
    flag,
    links,
    next_link,
    page_limit,
    path_text,
    read_body,
    text_parameter,
    whole_number,
)
from roost.compute.errors import FlavorNotFound
from roost.compute.model import Flavor, FlavorFilter
from roost.compute.service import Compute
from roost.compute.service import flavors as service
from roost.platform.errors import BadRequest
from roost.platform.http import Endpoint, Version, json_response

DESCRIPTION_FROM, EXTRA_SPECS_FROM = (2, 55), (2, 61)

PARAMETERS: Mapping[str, Version] = dict.fromkeys(
    ("limit", "marker", "is_public", "minRam", "minDisk", "sort_key", "sort_dir"), (2, 1)
)
"""Parameter of a list -> the microversion that brought it."""

BRIEF = frozenset({"id", "name", "description", "links"})

SpecKey = Annotated[str, Meta(min_length=1, max_length=255, pattern=r"^[a-zA-Z0-9-_:. ]{1,255}$")]
SpecValue = Annotated[str, Meta(max_length=255)] | int | float


class _FlavorBody(Struct, frozen=True, forbid_unknown_fields=True):
    name: Name
    ram: Whole
    vcpus: Whole
    disk: Whole
    id: Annotated[str, Meta(max_length=255)] | int | None = None
    description: Annotated[str, Meta(max_length=65535)] | UnsetType | None = UNSET
    ephemeral: Whole = field(name="OS-FLV-EXT-DATA:ephemeral", default=0)
    swap: Whole = 0
    rxtx_factor: float | str = 1.0
    is_public: Any = field(name="os-flavor-access:is_public", default=True)


class _CreateBody(Struct, frozen=True, forbid_unknown_fields=True):
    flavor: _FlavorBody


class _ExtraSpecsBody(Struct, frozen=True, forbid_unknown_fields=True):
    extra_specs: Annotated[dict[SpecKey, SpecValue], Meta(max_length=256)]


def endpoints(compute: Compute) -> dict[str, Mapping[str, Endpoint]]:
    """Path below /v2.1 -> method -> endpoint."""

    async def create(request: Request) -> Response:
        asked = (await read_body(request, _CreateBody)).flavor
        if asked.description is not UNSET and request.state.microversion < DESCRIPTION_FROM:
            raise BadRequest("description: there is this attribute from microversion 2.55")
        flavor = await service.create_flavor(compute, _read_flavor(asked))
        return json_response({"flavor": _show(request, flavor)})

    async def list_brief(request: Request) -> Response:
        page, more = await _page(compute, request)
        shown = ("id", "name", "description") if request.state.microversion >= DESCRIPTION_FROM else ("id", "name")
        brief = [
            {name: value for name, value in _show(request, one).items() if name in (*shown, "links")} for one in page
        ]
        return json_response({"flavors": brief} | more)

    async def list_detail(request: Request) -> Response:
        page, more = await _page(compute, request)
        return json_response({"flavors": [_show(request, one) for one in page]} | more)

    async def show(request: Request) -> Response:
        flavor = await service.get_flavor(compute, path_text(request, "flavor_id"))
        return json_response({"flavor": _show(request, flavor)})

    async def delete(request: Request) -> Response:
        await service.delete_flavor(compute, path_text(request, "flavor_id"))
        return json_response(None, 202)

    async def list_extra_specs(request: Request) -> Response:
        flavor = await service.get_flavor(compute, path_text(request, "flavor_id"))
        return json_response({"extra_specs": flavor.extra_specs})

    async def create_extra_specs(request: Request) -> Response:
        specs = (await read_body(request, _ExtraSpecsBody)).extra_specs
        added = {key: str(value) for key, value in specs.items()}
        flavor = await service.set_extra_specs(compute, path_text(request, "flavor_id"), added=added)
        return json_response({"extra_specs": {key: flavor.extra_specs[key] for key in added}})

    async def show_extra_spec(request: Request) -> Response:
        flavor = await service.get_flavor(compute, path_text(request, "flavor_id"))
        key = path_text(request, "key")
        return json_response({key: _spec(flavor, key)})

    async def delete_extra_spec(request: Request) -> Response:
        flavor = await service.get_flavor(compute, path_text(request, "flavor_id"))
        key = path_text(request, "key")
        _spec(flavor, key)
        await service.set_extra_specs(compute, flavor.id, added={}, removed=(key,))
        return json_response(None)

    return {
        "/flavors": {"GET": list_brief, "POST": create},
        "/flavors/detail": {"GET": list_detail},
        "/flavors/{flavor_id}": {"GET": show, "DELETE": delete},
        "/flavors/{flavor_id}/os-extra_specs": {"GET": list_extra_specs, "POST": create_extra_specs},
        "/flavors/{flavor_id}/os-extra_specs/{key}": {"GET": show_extra_spec, "DELETE": delete_extra_spec},
    }


def _spec(flavor: Flavor, key: str) -> str:
    if key not in flavor.extra_specs:
        raise FlavorNotFound(f"Flavor {flavor.id} has no extra specs with key {key}.")
    return flavor.extra_specs[key]


def _read_flavor(asked: _FlavorBody) -> service.FlavorRequest:
    if not asked.name.strip():
        raise BadRequest("name: expected more than blanks")
    for number, name in ((asked.swap, "swap"), (asked.ephemeral, "OS-FLV-EXT-DATA:ephemeral")):
        if whole_number(number, name, lowest=0):
            raise BadRequest(f"{name}={number}: only 0 is supported")
    if str(asked.rxtx_factor) not in ("1", "1.0"):
        raise BadRequest(f"rxtx_factor={asked.rxtx_factor}: Roost does not serve it: expected 1.0")
    return service.FlavorRequest(
        id=None if asked.id in (None, "", "auto") else str(asked.id),
        name=asked.name.strip(),
        vcpus=whole_number(asked.vcpus, "vcpus", lowest=1),
        ram_mb=whole_number(asked.ram, "ram", lowest=1),
        disk_gb=whole_number(asked.disk, "disk", lowest=0),
        description=asked.description or None,
        is_public=flag(asked.is_public, "os-flavor-access:is_public", default=True),
    )


def _read_is_public(request: Request) -> bool | None:
    """Return whether public flavors are asked for, or the others; None for all. Source: Nova, _parse_is_public."""
    text = text_parameter(request, "is_public")
    return None if text is not None and text.lower() == "none" else flag(text, "is_public", default=True)


def _read_least(request: Request, name: str) -> int:
    text = text_parameter(request, name)
    if text is None:
        return 0
    if re.fullmatch("[0-9]{1,18}", text) is None:
        raise BadRequest(f"Invalid {name} filter [{text}]")
    return min(int(text), INTEGER_MAX)


async def _page(compute: Compute, request: Request) -> tuple[list[Flavor], dict[str, Any]]:
    check_parameters(request, PARAMETERS)
    limit = page_limit(request)
    marker = text_parameter(request, "marker")
    for name, only in (("sort_key", "flavorid"), ("sort_dir", "asc")):
        if text_parameter(request, name) not in (None, only):
            raise BadRequest(f"{name}={text_parameter(request, name)}: Roost does not serve it: expected {only}")
    if marker is not None:
        try:
            await service.get_flavor(compute, marker)
        except FlavorNotFound as error:
            raise BadRequest(f"marker [{marker}] not found") from error
    page = await service.list_flavors(
        compute,
        after=marker or "",
        limit=limit,
        only=FlavorFilter(
            is_public=_read_is_public(request),
            ram_mb_min=_read_least(request, "minRam"),
            disk_gb_min=_read_least(request, "minDisk"),
        ),
    )
    if len(page) < limit or not page:
        return page, {}
    return page, {"flavors_links": next_link(request, page[-1].id, limit=limit)}


def _show_brief(request: Request, flavor: Flavor) -> dict[str, Any]:
    return {name: value for name, value in _show(request, flavor).items() if name in BRIEF}


def _show(request: Request, flavor: Flavor) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "id": flavor.id,
        "name": flavor.name,
        "ram": flavor.ram_mb,
        "vcpus": flavor.vcpus,
        "disk": flavor.disk_gb,
        "swap": "",
        "rxtx_factor": 1.0,
        "OS-FLV-EXT-DATA:ephemeral": 0,
        "OS-FLV-DISABLED:disabled": False,
        "os-flavor-access:is_public": flavor.is_public,
        "links": links(request, "flavors", flavor.id),
    }
    if request.state.microversion >= DESCRIPTION_FROM:
        shown["description"] = flavor.description
    if request.state.microversion >= EXTRA_SPECS_FROM:
        shown["extra_specs"] = flavor.extra_specs
    return shown
