"""What was asked of a server, and how it went. Source: Compute API, "Servers actions (os-instance-actions)"."""

from typing import Any

import msgspec
from starlette.requests import Request

from roost.compute.api.access import access_of
from roost.compute.api.answers import ActionAnswer, ActionsAnswer
from roost.compute.api.pages import read_page
from roost.compute.api.policies import ACTION_EVENTS, READER
from roost.compute.api.requests import (
    LIMIT,
    TIME,
    Parameter,
    Parameters,
    check_parameters,
    path_text,
    query,
    read_changed_between,
    timestamp_with_microseconds,
)
from roost.compute.api.server_documents import host_id
from roost.compute.model.server import ActionEvent, ActionFilter, Server, ServerAction
from roost.compute.service import Compute
from roost.compute.service import actions as service
from roost.platform.auth import Policy
from roost.platform.http import Version
from roost.platform.operations import Operation, Operations, Rule

PARAMETERS: Parameters = {
    "limit": msgspec.structs.replace(LIMIT, since=(2, 58)),
    "marker": Parameter(since=(2, 58)),
    "changes-since": Parameter(schema=TIME, since=(2, 58)),
    "changes-before": Parameter(schema=TIME, since=(2, 66)),
}


class ActionLog:
    """The operations of the log."""

    def __init__(self, compute: Compute, policy: Policy) -> None:
        self.compute = compute
        self.policy = policy

    def operations(self) -> Operations:
        """Return them by path below /v2.1."""
        return {
            "/servers/{server_id}/os-instance-actions": {
                "GET": Operation(
                    summary="what was asked of the server, the last first",
                    endpoint=self._list,
                    rule=Rule("os_compute_api:os-instance-actions:list", READER),
                    query=query(PARAMETERS),
                    result=ActionsAnswer,
                )
            },
            "/servers/{server_id}/os-instance-actions/{request_id}": {
                "GET": Operation(
                    summary="what one request asked of the server, and what came of it",
                    endpoint=self._show,
                    rule=Rule("os_compute_api:os-instance-actions:show", READER),
                    result=ActionAnswer,
                )
            },
        }

    async def _list(self, request: Request) -> dict[str, Any]:
        check_parameters(request, PARAMETERS)
        server: Server = request.state.server
        changed_since, changed_before = read_changed_between(request)
        only = ActionFilter(changed_since=changed_since, changed_before=changed_before)

        async def load(marker: str | None, limit: int) -> list[ServerAction]:
            return await service.list_actions(self.compute, server, only, marker=marker, limit=limit)

        actions, more = await read_page(request, "actions", load, lambda action: action.request_id)
        version = request.state.microversion
        links = {"links": more["actions_links"]} if more and version >= (2, 58) else {}
        return {"instanceActions": [_show(server, action, version) for action in actions]} | links

    async def _show(self, request: Request) -> dict[str, Any]:
        server: Server = request.state.server
        version, access = request.state.microversion, access_of(self.compute, self.policy, request)
        action = await service.get_action(self.compute, server, path_text(request, "request_id"))
        shown = _show(server, action, version)
        sees_all = access.allows(ACTION_EVENTS, server)
        if sees_all or version >= (2, 51):
            shown["events"] = [_show_event(server, event, version, sees_all=sees_all) for event in action.events]
        return {"instanceAction": shown}


def _show(server: Server, action: ServerAction, version: Version) -> dict[str, Any]:
    shown = {
        "action": action.name,
        "instance_uuid": server.id,
        "request_id": action.request_id,
        "user_id": action.user_id,
        "project_id": action.project_id,
        "start_time": timestamp_with_microseconds(action.started_at),
        "message": _message(action),
    }
    if version >= (2, 58):
        shown["updated_at"] = timestamp_with_microseconds(action.updated_at)
    return shown


def _message(action: ServerAction) -> str | None:
    """Return why the action failed: the details of its last event that failed, else upstream's bare `Error`."""
    reasons = [event.details for event in action.events if event.result == "Error" and event.details]
    return reasons[-1] if action.message and reasons else action.message


def _show_event(server: Server, event: ActionEvent, version: Version, *, sees_all: bool) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "event": event.name,
        "start_time": timestamp_with_microseconds(event.started_at),
        "finish_time": timestamp_with_microseconds(event.finished_at),
        "result": event.result,
    }
    if sees_all:
        shown["traceback"] = None
    if version >= (2, 62):
        shown["hostId"] = host_id(server.project_id, event.host)
        if sees_all:
            shown["host"] = event.host
    if version >= (2, 84):
        shown["details"] = event.details
    return shown
