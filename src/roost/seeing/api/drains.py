"""Drains and recoveries of hosts, at /roost/v1/drains and /roost/v1/recoveries."""

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from msgspec import Struct
from starlette.requests import Request

from roost.compute.model.server import Requester
from roost.platform.auth import OPERATOR, caller_of
from roost.platform.bodies import read_json
from roost.platform.operations import Operation, Operations, Rule
from roost.platform.request_ids import request_id_of
from roost.platform.structs import copy_as
from roost.seeing.api.policies import ADMIN
from roost.seeing.errors import DrainInvalid, DrainNotFound
from roost.seeing.model import PARALLEL_DEFAULT, Drain, DrainKind, DrainPlan, DrainRequest, ServerStaying
from roost.seeing.rules.questions import Text
from roost.seeing.service import drains as service
from roost.seeing.service.context import Seeing


class _DrainBody(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """hosts, segment: which; both add up. parallel: moves at once. deadline_s: from now. dry_run: only the plan."""

    hosts: list[Text] = []
    segment: Text | None = None
    parallel: int = PARALLEL_DEFAULT
    deadline_s: float | None = None
    dry_run: bool = False


class _RecoveryBody(_DrainBody, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """readdress: servers may get other addresses, where no host that reaches theirs has room."""

    readdress: bool = False


class DrainAnswer(Struct, frozen=True, kw_only=True):
    """A drain. servers: how many were on its hosts; gone: how many have left. staying: the others, and why."""

    id: int
    kind: str
    state: str
    hosts: tuple[str, ...]
    segment: str | None
    parallel: int
    readdress: bool
    request_id: str
    servers: int
    gone: int
    ready: int
    moving: int
    staying: tuple[ServerStaying, ...]
    created_at: datetime
    deadline_at: datetime | None
    ended_at: datetime | None


class DrainDocument(Struct, frozen=True):
    """One drain."""

    drain: DrainAnswer


class DrainsDocument(Struct, frozen=True):
    """The youngest drains."""

    drains: list[DrainAnswer]


class BegunDocument(Struct, frozen=True):
    """What was begun, None for a dry run, and what it comes to by the capacity that there is."""

    drain: DrainAnswer | None
    plan: DrainPlan


class Drains:
    """The operations of drains."""

    def __init__(self, seeing: Seeing) -> None:
        self.seeing = seeing

    def operations(self) -> Operations:
        """Return them by path below /v1."""
        return {
            "/drains": {
                "GET": Operation(
                    summary="the youngest drains and recoveries, of the hosts of `host=` or of any",
                    endpoint=self._list_drains,
                    rule=Rule("roost:drains:list", ADMIN),
                    query=HOSTS_QUERY,
                    result=DrainsDocument,
                ),
                "POST": Operation(
                    summary="get hosts empty, or go on with the drain of the very same hosts",
                    endpoint=self._drain,
                    rule=Rule("roost:drains:create", ADMIN),
                    body=_DrainBody,
                    result=BegunDocument,
                    errors=(404, 409),
                ),
            },
            "/drains/{drain_id}": {
                "GET": Operation(
                    summary="one drain or recovery, with its progress",
                    endpoint=self._show_drain,
                    rule=Rule("roost:drains:show", ADMIN),
                    result=DrainDocument,
                ),
                "DELETE": Operation(
                    summary="begin no more moves of it, and enable the hosts that it disabled",
                    endpoint=self._cancel_drain,
                    rule=Rule("roost:drains:cancel", ADMIN),
                    result=DrainDocument,
                ),
            },
            "/recoveries": {
                "POST": Operation(
                    summary="make the servers of dead hosts again elsewhere",
                    endpoint=self._recover,
                    rule=Rule("roost:recoveries:create", ADMIN),
                    body=_RecoveryBody,
                    result=BegunDocument,
                    errors=(404, 409),
                )
            },
        }

    async def _list_drains(self, request: Request) -> DrainsDocument:
        if unknown := sorted(set(request.query_params) - set(HOSTS_QUERY["properties"])):
            raise DrainInvalid(f"query parameter {unknown[0]}: expected host")
        hosts = request.query_params.getlist("host")
        if any("\x00" in host for host in hosts):
            raise DrainInvalid("host: expected names, without the character NUL")
        drains = await service.list_drains(self.seeing, hosts or None)
        return DrainsDocument([_show(drain) for drain in drains])

    async def _drain(self, request: Request) -> BegunDocument:
        return await self._begin(request, DrainKind.DRAIN, await read_json(request, _DrainBody))

    async def _recover(self, request: Request) -> BegunDocument:
        body = await read_json(request, _RecoveryBody)
        return await self._begin(request, DrainKind.RECOVER, body, readdress=body.readdress)

    async def _begin(
        self, request: Request, kind: DrainKind, body: _DrainBody, *, readdress: bool = False
    ) -> BegunDocument:
        drain_request = DrainRequest(
            kind=kind,
            hosts=tuple(body.hosts),
            segment=body.segment,
            parallel=body.parallel,
            deadline_s=body.deadline_s,
            readdress=readdress,
        )
        begun = await service.begin_drain(self.seeing, drain_request, self._requester(request), dry_run=body.dry_run)
        return BegunDocument(None if begun.drain is None else _show(begun.drain), begun.plan)

    async def _show_drain(self, request: Request) -> DrainDocument:
        return DrainDocument(_show(await service.get_drain(self.seeing, _number(request))))

    async def _cancel_drain(self, request: Request) -> DrainDocument:
        return DrainDocument(_show(await service.cancel_drain(self.seeing, _number(request))))

    def _requester(self, request: Request) -> Requester:
        caller, compute = caller_of(request.scope), self.seeing.compute
        known = caller != OPERATOR
        return Requester(
            request_id=request_id_of(request.scope),
            project_id=(caller.project_id if known else None) or compute.default_project,
            user_id=(caller.user_id if known else None) or compute.default_user,
            is_admin=True,
        )


HOSTS_QUERY: Mapping[str, Any] = {
    "type": "object",
    "properties": {"host": {"type": "array", "items": {"type": "string"}}},
    "additionalProperties": False,
}


def _number(request: Request) -> int:
    text = request.path_params["drain_id"]
    if not re.fullmatch(r"[0-9]{1,18}", text):
        raise DrainNotFound(f"Drain {text} could not be found.")
    return int(text)


def _show(drain: Drain) -> DrainAnswer:
    progress = drain.progress
    return copy_as(
        DrainAnswer,
        drain,
        kind=drain.kind.value,
        state=drain.state,
        gone=max(0, drain.servers - progress.servers_left),
        ready=progress.ready,
        moving=progress.moving,
        staying=progress.staying,
    )
