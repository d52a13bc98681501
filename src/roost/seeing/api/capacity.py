"""GET and POST /capacity: how many more servers fit; without a flavor, what the cloud has free."""

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace
from starlette.requests import Request

from roost.platform.bodies import read_json
from roost.platform.operations import Operation, Operations, Rule
from roost.seeing.api.policies import SERVICE
from roost.seeing.api.questions import query_schema, read_query
from roost.seeing.rules.capacity import Binding, Capacity, GroupRoom, SegmentRoom
from roost.seeing.rules.cloud_table import CloudTable
from roost.seeing.rules.questions import ServersAsked
from roost.seeing.rules.what_if import WhatIf
from roost.seeing.service import capacity as service
from roost.seeing.service.context import Seeing
from roost.seeing.service.what_if import CloudChanged


class CapacityBody(ServersAsked, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Servers; without flavor and server the cloud as a whole is meant. what_if: the cloud that would be."""

    what_if: WhatIf | None = None


class ServersFit(Struct, frozen=True, kw_only=True):
    """exact: both numbers are one, in any order of servers; else the conductor would place `least`, and none more than
    `most`. choices: why. bindings: without each of these limits, so many more would fit; null: any number.
    """

    exact: bool
    least: int
    most: int
    choices: tuple[str, ...]
    bindings: tuple[Binding, ...]
    segments: tuple[SegmentRoom, ...]
    zones: tuple[GroupRoom, ...]
    aggregates: tuple[GroupRoom, ...]


class ServerStaying(Struct, frozen=True):
    """A server that finds no place elsewhere."""

    id: str
    name: str


class DrainedShown(Struct, frozen=True):
    """Hosts that would be drained, and their servers: how many found a place elsewhere, beside the others; the rest."""

    hosts: tuple[str, ...]
    servers_moved: int
    servers_staying: list[ServerStaying]


class CapacityAnswer(Struct, frozen=True, kw_only=True):
    """servers: how many more fit. cloud: what is free, where no servers were asked about. drained: of a what_if."""

    drained: DrainedShown | UnsetType = UNSET
    servers: ServersFit | UnsetType = UNSET
    cloud: CloudTable | UnsetType = UNSET


def capacity_operations(seeing: Seeing) -> Operations:
    """Return the operations of capacity, by path below /v1."""

    async def count(body: CapacityBody) -> CapacityAnswer:
        if replace(body, what_if=None) == CapacityBody():
            table, cloud = await service.read_table(seeing, body.what_if)
            return CapacityAnswer(cloud=table, drained=_show_drained(cloud))
        capacity, cloud = await service.count_servers(seeing, body, body.what_if)
        return CapacityAnswer(servers=_show(capacity), drained=_show_drained(cloud))

    async def count_query(request: Request) -> CapacityAnswer:
        return await count(read_query(request, CapacityBody))

    async def count_body(request: Request) -> CapacityAnswer:
        return await count(await read_json(request, CapacityBody))

    rule, summary = Rule("roost:capacity", SERVICE), "how many more servers fit, or what the cloud has free"
    errors = (400, 404, 409)
    return {
        "/capacity": {
            "GET": Operation(
                summary=summary,
                endpoint=count_query,
                rule=rule,
                query=query_schema(),
                result=CapacityAnswer,
                errors=errors,
            ),
            "POST": Operation(
                summary=summary, endpoint=count_body, rule=rule, body=CapacityBody, result=CapacityAnswer, errors=errors
            ),
        }
    }


def _show_drained(cloud: CloudChanged) -> DrainedShown | UnsetType:
    if not cloud.hosts_drained:
        return UNSET
    staying = [ServerStaying(server_id, name) for server_id, name in cloud.servers_staying.items()]
    return DrainedShown(cloud.hosts_drained, cloud.servers_moved, staying)


def _show(capacity: Capacity) -> ServersFit:
    return ServersFit(**{name: getattr(capacity, name) for name in ServersFit.__struct_fields__})
