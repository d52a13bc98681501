"""Host aggregates in the Compute API's shapes. Source: Compute API, "Host aggregates"; nova's schemas/aggregates.py."""

import re
from typing import Annotated, Any

from msgspec import UNSET, Meta, Struct, UnsetType
from starlette.requests import Request
from starlette.responses import Response

from roost.compute.api.access import access_of
from roost.compute.api.answers import AggregateAnswer, AggregateCreatedAnswer, AggregatesAnswer
from roost.compute.api.policies import ADMIN
from roost.compute.api.requests import path_text, read_body, timestamp_with_microseconds
from roost.compute.model.cloud import HostAggregate
from roost.compute.model.server import Requester
from roost.compute.service import Compute
from roost.compute.service import aggregates as service
from roost.compute.service import operator_aggregates as changes
from roost.platform.auth import Policy
from roost.platform.errors import BadRequest
from roost.platform.operations import Operation, Operations, Rule

UUID_FROM, IMAGES_FROM = (2, 41), (2, 81)

AggregateName = Annotated[str, Meta(min_length=1, max_length=255)]
Zone = Annotated[str, Meta(min_length=1, max_length=255, pattern="^[^:]*$")]
HostName = Annotated[str, Meta(min_length=1, max_length=255, pattern=r"^[a-zA-Z0-9-._]*$")]
Key = Annotated[str, Meta(min_length=1, max_length=255, pattern=r"^[a-zA-Z0-9-_:. ]{1,255}$")]
Value = Annotated[str, Meta(max_length=255)]


class NewAggregate(Struct, frozen=True, forbid_unknown_fields=True):
    """The aggregate that is asked for."""

    name: AggregateName
    availability_zone: Zone | None = None


class AggregateCreateBody(Struct, frozen=True, forbid_unknown_fields=True):
    """The whole body."""

    aggregate: NewAggregate


class AggregateChange(Struct, frozen=True, forbid_unknown_fields=True):
    """What is to be changed of it; at least one of both."""

    name: AggregateName | UnsetType = UNSET
    availability_zone: Zone | UnsetType | None = UNSET


class AggregateUpdateBody(Struct, frozen=True, forbid_unknown_fields=True):
    """The whole body."""

    aggregate: AggregateChange


class HostOf(Struct, frozen=True, forbid_unknown_fields=True):
    """A host that is to come or go."""

    host: HostName


class MetadataOf(Struct, frozen=True, forbid_unknown_fields=True):
    """Metadata to set; null removes a key."""

    metadata: Annotated[dict[Key, Value | None], Meta(max_length=128)]


class AggregateActionBody(Struct, frozen=True, forbid_unknown_fields=True):
    """Exactly one action."""

    add_host: HostOf | UnsetType = UNSET
    remove_host: HostOf | UnsetType = UNSET
    set_metadata: MetadataOf | UnsetType = UNSET


class Aggregates:
    """The operations of host aggregates."""

    def __init__(self, compute: Compute, policy: Policy) -> None:
        self.compute = compute
        self.policy = policy

    def operations(self) -> Operations:
        """Return them by path below /v2.1."""
        return {
            "/os-aggregates": {
                "GET": Operation(
                    summary="host aggregates", endpoint=self._list, rule=_rule("index"), result=AggregatesAnswer
                ),
                "POST": Operation(
                    summary="make a host aggregate",
                    endpoint=self._create,
                    rule=_rule("create"),
                    body=AggregateCreateBody,
                    result=AggregateCreatedAnswer,
                    errors=(409,),
                ),
            },
            "/os-aggregates/{aggregate_id}": {
                "GET": Operation(
                    summary="one host aggregate", endpoint=self._show, rule=_rule("show"), result=AggregateAnswer
                ),
                "PUT": Operation(
                    summary="rename it, or put its hosts into another zone",
                    endpoint=self._update,
                    rule=_rule("update"),
                    body=AggregateUpdateBody,
                    result=AggregateAnswer,
                    errors=(409,),
                ),
                "DELETE": Operation(
                    summary="delete it, once no host is in it",
                    endpoint=self._delete,
                    rule=_rule("delete"),
                    errors=(409,),
                ),
            },
            "/os-aggregates/{aggregate_id}/action": {
                "POST": Operation(
                    summary="add_host, remove_host or set_metadata",
                    endpoint=self._act,
                    asks=tuple(map(_rule, AggregateActionBody.__struct_fields__)),
                    body=AggregateActionBody,
                    result=AggregateAnswer,
                    errors=(409,),
                )
            },
            "/os-aggregates/{aggregate_id}/images": {
                "POST": Operation(
                    summary="refused: Roost caches no images",
                    endpoint=self._cache_images,
                    rule=Rule("compute:aggregates:images", ADMIN),
                    since=IMAGES_FROM,
                )
            },
        }

    async def _list(self, request: Request) -> dict[str, Any]:
        aggregates = await service.list_host_aggregates(self.compute)
        return {"aggregates": [_show_aggregate(aggregate, request) for aggregate in aggregates]}

    async def _create(self, request: Request) -> dict[str, Any]:
        body = (await read_body(request, AggregateCreateBody)).aggregate
        aggregate = await changes.create_aggregate(
            self.compute, _read_name(body.name), _read_zone(body.availability_zone), self._requester(request)
        )
        shown = _show_aggregate(aggregate, request)
        return {"aggregate": {key: shown[key] for key in shown.keys() - {"hosts", "metadata"}}}

    async def _show(self, request: Request) -> dict[str, Any]:
        aggregate = await service.get_host_aggregate(self.compute, _read_id(request))
        return {"aggregate": _show_aggregate(aggregate, request)}

    async def _update(self, request: Request) -> dict[str, Any]:
        aggregate_id = _read_id(request)
        body = (await read_body(request, AggregateUpdateBody)).aggregate
        if body.name is UNSET and body.availability_zone is UNSET:
            raise BadRequest("aggregate: expected a name, an availability_zone, or both")
        zone = body.availability_zone
        aggregate = await changes.update_aggregate(
            self.compute,
            aggregate_id,
            name=None if body.name is UNSET else _read_name(body.name),
            metadata={} if zone is UNSET else {"availability_zone": _read_zone(zone)},
            by=self._requester(request),
        )
        return {"aggregate": _show_aggregate(aggregate, request)}

    async def _delete(self, request: Request) -> None:
        await changes.delete_aggregate(self.compute, _read_id(request), self._requester(request))

    async def _act(self, request: Request) -> dict[str, Any]:
        aggregate_id = _read_id(request)
        body = await read_body(request, AggregateActionBody)
        actions = [name for name in body.__struct_fields__ if getattr(body, name) is not UNSET]
        if len(actions) != 1:
            raise BadRequest(
                f"{', '.join(actions) or 'no action'}: expected one of {', '.join(body.__struct_fields__)}"
            )
        access_of(self.compute, self.policy, request).enforce(_rule(actions[0]).name)
        by = self._requester(request)
        if body.add_host is not UNSET:
            aggregate = await changes.add_host(self.compute, aggregate_id, body.add_host.host, by)
        elif body.remove_host is not UNSET:
            aggregate = await changes.remove_host(self.compute, aggregate_id, body.remove_host.host, by)
        else:
            assert body.set_metadata is not UNSET
            metadata = body.set_metadata.metadata
            aggregate = await changes.update_aggregate(self.compute, aggregate_id, metadata=metadata, by=by)
        return {"aggregate": _show_aggregate(aggregate, request)}

    def _requester(self, request: Request) -> Requester:
        return access_of(self.compute, self.policy, request).requester

    async def _cache_images(self, request: Request) -> Response:
        await service.get_host_aggregate(self.compute, _read_id(request))
        raise BadRequest("images: Roost caches no images on hosts: their agents fetch what a server needs.")


def _rule(action: str) -> Rule:
    return Rule(f"os_compute_api:os-aggregates:{action}", ADMIN)


def _read_id(request: Request) -> int:
    text = path_text(request, "aggregate_id")
    if not re.fullmatch(r"[0-9]{1,9}", text):
        raise service.missing_aggregate(text)
    return int(text)


def _read_name(name: str) -> str:
    if not name.strip():
        raise BadRequest("aggregate: name: expected more than blanks")
    return name.strip()


def _read_zone(zone: str | None) -> str | None:
    return zone if zone is None else zone.strip()


def _show_aggregate(aggregate: HostAggregate, request: Request) -> dict[str, Any]:
    changed_at = aggregate.updated_at if aggregate.updated_at > aggregate.created_at else None
    shown: dict[str, Any] = {
        "id": aggregate.id,
        "name": aggregate.name,
        "availability_zone": aggregate.metadata.get("availability_zone"),
        "hosts": aggregate.hosts,
        "metadata": aggregate.metadata,
        "created_at": timestamp_with_microseconds(aggregate.created_at),
        "updated_at": timestamp_with_microseconds(changed_at),
        "deleted": False,
        "deleted_at": None,
    }
    if request.state.microversion >= UUID_FROM:
        shown["uuid"] = aggregate.uuid
    return shown
