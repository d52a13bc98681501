"""Flavors in the Compute API's shapes."""

import re
from functools import partial
from typing import Annotated, Any

from msgspec import UNSET, Meta, Struct, UnsetType, field
from starlette.requests import Request

from roost.compute.api.access import access_of
from roost.compute.api.answers import FlavorAnswer, FlavorsAnswer, FlavorsDetailAnswer, Specs, SpecsAnswer
from roost.compute.api.pages import More, read_page
from roost.compute.api.policies import ADMIN, FLAVOR_EXTRA_SPECS, READER, SERVICE
from roost.compute.api.requests import (
    INTEGER_MAX,
    LIMIT,
    NO,
    YES,
    Name,
    Parameter,
    Parameters,
    Whole,
    check_parameters,
    flag,
    links,
    one_of,
    path_text,
    query,
    read_body,
    text_parameter,
    whole_number,
)
from roost.compute.errors import FlavorNotFound
from roost.compute.model.cloud import Flavor, FlavorFilter
from roost.compute.service import Compute
from roost.compute.service import flavors as service
from roost.platform.auth import Policy
from roost.platform.errors import BadRequest
from roost.platform.operations import Operation, Operations, Rule
from roost.platform.turns import encode_in_turns

DESCRIPTION_FROM, EXTRA_SPECS_FROM = (2, 55), (2, 61)
SWAP_IS_NUMBER_FROM, SPECS_CHECKED_FROM = (2, 75), (2, 86)

PARAMETERS: Parameters = {
    "limit": LIMIT,
    "marker": Parameter(),
    "is_public": Parameter(schema=one_of({"none", *YES, *NO})),
    "minRam": Parameter(schema={"type": "integer", "minimum": 0}),
    "minDisk": Parameter(schema={"type": "integer", "minimum": 0}),
    "sort_key": Parameter(schema={"const": "flavorid"}),
    "sort_dir": Parameter(schema={"const": "asc"}),
}
"""Of a list."""

SpecKey = Annotated[str, Meta(min_length=1, max_length=255, pattern=r"^[a-zA-Z0-9-_:. ]{1,255}$")]
SpecValue = Annotated[str, Meta(max_length=255)] | int | float


class FlavorBody(Struct, frozen=True, forbid_unknown_fields=True):
    """The flavor that is asked for."""

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


class FlavorCreateBody(Struct, frozen=True, forbid_unknown_fields=True):
    """The whole body."""

    flavor: FlavorBody


class ExtraSpecsBody(Struct, frozen=True, forbid_unknown_fields=True):
    """Extra specs to add or replace."""

    extra_specs: Annotated[dict[SpecKey, SpecValue], Meta(max_length=256)]


class Flavors:
    """The operations of flavors."""

    def __init__(self, compute: Compute, policy: Policy) -> None:
        self.compute = compute
        self.policy = policy

    def operations(self) -> Operations:
        """Return them by path below /v2.1."""
        manage = "os_compute_api:os-flavor-manage:"
        return {
            "/flavors": {
                "GET": Operation(
                    summary="flavors by id and name",
                    endpoint=self._list_brief,
                    query=query(PARAMETERS),
                    result=FlavorsAnswer,
                ),
                "POST": Operation(
                    summary="make a flavor",
                    endpoint=self._create,
                    rule=Rule(f"{manage}create", SERVICE),
                    body=FlavorCreateBody,
                    result=FlavorAnswer,
                    errors=(409,),
                ),
            },
            "/flavors/detail": {
                "GET": Operation(
                    summary="flavors", endpoint=self._list_detail, query=query(PARAMETERS), result=FlavorsDetailAnswer
                )
            },
            "/flavors/{flavor_id}": {
                "GET": Operation(summary="one flavor", endpoint=self._show_one, result=FlavorAnswer),
                "DELETE": Operation(
                    summary="delete the flavor; servers keep their copy",
                    endpoint=self._delete,
                    rule=Rule(f"{manage}delete", ADMIN),
                    status=202,
                ),
            },
            **_extra_spec_operations(self.compute, self.policy),
        }

    def _show(self, request: Request, flavor: Flavor) -> dict[str, Any]:
        return _show(request, flavor, specs=access_of(self.compute, self.policy, request).allows(FLAVOR_EXTRA_SPECS))

    async def _create(self, request: Request) -> dict[str, Any]:
        flavor_body = (await read_body(request, FlavorCreateBody)).flavor
        if flavor_body.description is not UNSET and request.state.microversion < DESCRIPTION_FROM:
            raise BadRequest("description: there is this attribute from microversion 2.55")
        flavor = await service.create_flavor(self.compute, _read_flavor(flavor_body))
        return {"flavor": self._show(request, flavor)}

    async def _list_brief(self, request: Request) -> dict[str, Any]:
        flavors, more = await self._page(request)
        shown = ("id", "name", "description") if request.state.microversion >= DESCRIPTION_FROM else ("id", "name")
        brief = [
            {name: value for name, value in self._show(request, flavor).items() if name in (*shown, "links")}
            for flavor in flavors
        ]
        return {"flavors": brief} | more

    async def _list_detail(self, request: Request) -> dict[str, Any]:
        flavors, more = await self._page(request)
        return {"flavors": await encode_in_turns(partial(self._show, request), flavors)} | more

    async def _show_one(self, request: Request) -> dict[str, Any]:
        return {"flavor": self._show(request, await _get_flavor(self.compute, self.policy, request))}

    async def _delete(self, request: Request) -> None:
        await service.delete_flavor(self.compute, path_text(request, "flavor_id"))

    async def _page(self, request: Request) -> tuple[list[Flavor], More]:
        check_parameters(request, PARAMETERS)
        for name, only in (("sort_key", "flavorid"), ("sort_dir", "asc")):
            if text_parameter(request, name) not in (None, only):
                raise BadRequest(f"{name}={text_parameter(request, name)}: Roost does not serve it: expected {only}")
        public_only = not access_of(self.compute, self.policy, request).is_admin
        is_public = _read_is_public(request)
        only_these = FlavorFilter(
            is_public=True if public_only else is_public,
            ram_mb_min=_read_least(request, "minRam"),
            disk_gb_min=_read_least(request, "minDisk"),
        )

        async def load(marker: str | None, limit: int) -> list[Flavor]:
            if marker is not None and await service.find_flavor(self.compute, marker, public_only=public_only) is None:
                raise BadRequest(f"marker [{marker}] not found")
            return await service.list_flavors(self.compute, after=marker or "", limit=limit, only=only_these)

        return await read_page(request, "flavors", load, lambda flavor: flavor.id)


def _extra_spec_operations(compute: Compute, policy: Policy) -> Operations:
    async def list_specs(request: Request) -> dict[str, Any]:
        flavor = await _get_flavor(compute, policy, request)
        return {"extra_specs": flavor.extra_specs}

    async def create(request: Request) -> dict[str, Any]:
        specs = (await read_body(request, ExtraSpecsBody)).extra_specs
        added = {key: str(value) for key, value in specs.items()}
        checked = request.state.microversion >= SPECS_CHECKED_FROM
        flavor = await service.set_extra_specs(compute, path_text(request, "flavor_id"), added=added, checked=checked)
        return {"extra_specs": {key: flavor.extra_specs[key] for key in added}}

    async def show(request: Request) -> dict[str, Any]:
        flavor = await _get_flavor(compute, policy, request)
        key = path_text(request, "key")
        return {key: _spec(flavor, key)}

    async def delete(request: Request) -> None:
        flavor = await _get_flavor(compute, policy, request)
        key = path_text(request, "key")
        _spec(flavor, key)
        await service.set_extra_specs(compute, flavor.id, added={}, removed=(key,))

    rule = "os_compute_api:os-flavor-extra-specs:"
    return {
        "/flavors/{flavor_id}/os-extra_specs": {
            "GET": Operation(
                summary="a flavor's extra specs",
                endpoint=list_specs,
                rule=Rule(FLAVOR_EXTRA_SPECS, READER),
                result=SpecsAnswer,
            ),
            "POST": Operation(
                summary="add or replace extra specs",
                endpoint=create,
                rule=Rule(f"{rule}create", ADMIN),
                body=ExtraSpecsBody,
                result=SpecsAnswer,
            ),
        },
        "/flavors/{flavor_id}/os-extra_specs/{key}": {
            "GET": Operation(summary="one extra spec", endpoint=show, rule=Rule(f"{rule}show", READER), result=Specs),
            "DELETE": Operation(summary="drop the extra spec", endpoint=delete, rule=Rule(f"{rule}delete", ADMIN)),
        },
    }


async def _get_flavor(compute: Compute, policy: Policy, request: Request) -> Flavor:
    """Return the flavor that the path names. Raises FlavorNotFound, also for one that is not for the caller."""
    flavor_id, public_only = path_text(request, "flavor_id"), not access_of(compute, policy, request).is_admin
    flavor = await service.find_flavor(compute, flavor_id, public_only=public_only)
    if flavor is None:
        raise FlavorNotFound(f"Flavor {flavor_id} could not be found.")
    return flavor


def _spec(flavor: Flavor, key: str) -> str:
    if key not in flavor.extra_specs:
        raise FlavorNotFound(f"Flavor {flavor.id} has no extra specs with key {key}.")
    return flavor.extra_specs[key]


def _read_flavor(body: FlavorBody) -> service.FlavorRequest:
    if not body.name.strip():
        raise BadRequest("name: expected more than blanks")
    for number, name in ((body.swap, "swap"), (body.ephemeral, "OS-FLV-EXT-DATA:ephemeral")):
        if whole_number(number, name, lowest=0):
            raise BadRequest(f"{name}={number}: only 0 is supported")
    if str(body.rxtx_factor) not in ("1", "1.0"):
        raise BadRequest(f"rxtx_factor={body.rxtx_factor}: Roost does not serve it: expected 1.0")
    return service.FlavorRequest(
        id=None if body.id in (None, "", "auto") else str(body.id),
        name=body.name.strip(),
        vcpus=whole_number(body.vcpus, "vcpus", lowest=1),
        ram_mb=whole_number(body.ram, "ram", lowest=1),
        disk_gb=whole_number(body.disk, "disk", lowest=0),
        description=body.description or None,
        is_public=flag(body.is_public, "os-flavor-access:is_public", default=True),
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


def _show(request: Request, flavor: Flavor, *, specs: bool) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "id": flavor.id,
        "name": flavor.name,
        "ram": flavor.ram_mb,
        "vcpus": flavor.vcpus,
        "disk": flavor.disk_gb,
        "swap": 0 if request.state.microversion >= SWAP_IS_NUMBER_FROM else "",
        "rxtx_factor": 1.0,
        "OS-FLV-EXT-DATA:ephemeral": 0,
        "OS-FLV-DISABLED:disabled": False,
        "os-flavor-access:is_public": flavor.is_public,
        "links": links(request, "flavors", flavor.id),
    }
    if request.state.microversion >= DESCRIPTION_FROM:
        shown["description"] = flavor.description
    if request.state.microversion >= EXTRA_SPECS_FROM and specs:
        shown["extra_specs"] = flavor.extra_specs
    return shown
