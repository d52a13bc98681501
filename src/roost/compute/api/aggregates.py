"""Host aggregates in the Compute API's shapes, to be looked at only."""

import re
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from roost.compute.api.answers import AggregateAnswer, AggregatesAnswer
from roost.compute.api.requests import path_text, timestamp_with_microseconds
from roost.compute.errors import HostAggregateNotFound
from roost.compute.model import HostAggregate
from roost.compute.service import Compute
from roost.compute.service import aggregates as service
from roost.platform.http import json_response
from roost.platform.operations import Operation, Operations


def aggregate_operations(compute: Compute) -> Operations:
    """Return the operations of host aggregates, by path below /v2.1."""

    async def list_aggregates(request: Request) -> Response:
        aggregates = await service.list_host_aggregates(compute)
        return json_response({"aggregates": [_show_aggregate(aggregate, request) for aggregate in aggregates]})

    async def show_aggregate(request: Request) -> Response:
        text = path_text(request, "aggregate_id")
        if not re.fullmatch(r"[0-9]{1,9}", text):
            raise HostAggregateNotFound(f"Aggregate {text} could not be found.")
        aggregate = await service.get_host_aggregate(compute, int(text))
        return json_response({"aggregate": _show_aggregate(aggregate, request)})

    return {
        "/os-aggregates": {
            "GET": Operation(
                summary="host aggregates",
                endpoint=list_aggregates,
                rule="os_compute_api:os-aggregates:index",
                result=AggregatesAnswer,
            )
        },
        "/os-aggregates/{aggregate_id}": {
            "GET": Operation(
                summary="one host aggregate",
                endpoint=show_aggregate,
                rule="os_compute_api:os-aggregates:show",
                result=AggregateAnswer,
            )
        },
    }


def _show_aggregate(aggregate: HostAggregate, request: Request) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "id": aggregate.id,
        "name": aggregate.name,
        "availability_zone": aggregate.metadata.get("availability_zone"),
        "hosts": aggregate.hosts,
        "metadata": aggregate.metadata,
        "created_at": timestamp_with_microseconds(aggregate.created_at),
        "updated_at": timestamp_with_microseconds(aggregate.updated_at),
        "deleted": False,
        "deleted_at": None,
    }
    if request.state.microversion >= (2, 41):
        shown["uuid"] = aggregate.uuid
    return shown
