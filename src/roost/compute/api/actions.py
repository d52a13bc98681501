"""POST /servers/{server_id}/action: one operation, whose body has one key, the action's name.

Each action has a policy rule, microversions and a body of its own: a row of a table. What they do is elsewhere:
`power_actions.py`, `move_actions.py`.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec
from msgspec import Struct
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from roost.compute.api.access import Access, access_of, find_server
from roost.compute.api.errors import MICROVERSIONS
from roost.compute.api.requests import Attributes, check_attributes, read_body
from roost.compute.api.server_documents import Shown, show_rebuilt
from roost.compute.model.server import Server
from roost.compute.service import Compute
from roost.compute.service import servers as service
from roost.platform.auth import Policy
from roost.platform.errors import BadRequest
from roost.platform.http import Version, json_response
from roost.platform.operations import Operation, Operations, Rule, Schema, Versions

Run = Callable[[Compute, Server, Any, Access], Awaitable[Any]]
"""Of the service, the server as it was found, the decoded body, and who asks: the answer's body, None for none."""


class Action(Struct, frozen=True, kw_only=True):
    """One action. rule: of policy, asked about the server. body: what is below its name, None where nobody looks at it.

    since, until: the first and the last microversion that have it. attributes: of the body, by microversion. status: of
    success. result: the body of success at the highest microversion. shows_server: the answer is the server, rebuilt.
    """

    run: Run
    rule: Rule
    body: Any = None
    since: Version = MICROVERSIONS.lowest
    until: Version = MICROVERSIONS.highest
    attributes: Attributes = Attributes()
    status: int = 202
    result: Any = None
    shows_server: bool = False

    def body_at(self, version: Version) -> Any:
        """Return the type of the body at a microversion."""
        return self.body.at(version) if isinstance(self.body, Versions) else self.body


Actions = Mapping[str, Action]
"""By name."""


def action_operations(compute: Compute, policy: Policy, actions: Actions) -> Operations:
    """Return the operation, by path below /v2.1."""

    async def act(request: Request) -> Response:
        named = await read_body(request, dict[str, msgspec.Raw])
        if len(named) != 1:
            raise BadRequest(f"Malformed request body: expected one action, got {', '.join(sorted(named)) or 'none'}")
        (name,) = named
        action, version = actions.get(name), request.state.microversion
        if action is None:
            raise BadRequest(f"There is no such action: {name}")
        if not action.since <= version <= action.until:
            raise HTTPException(404)
        body = None  # where an action takes none, clients send null, {} or what came to their mind
        if (body_type := action.body_at(version)) is not None:
            named_body: Any = dict[str, body_type]  # type: ignore[valid-type]
            body = (await read_body(request, named_body))[name]
        check_attributes(body, version, action.attributes)
        await find_server(compute, policy, action.rule.name, request)
        access = access_of(compute, policy, request)
        server: Server = request.state.server
        answer = await action.run(compute, server, body, access)
        if action.shows_server:
            changed = await service.get_server(compute, server.id)
            answer = {"server": show_rebuilt(request, changed, Shown.of(access, compute))}
        return json_response(answer, action.status)

    results = [action.result for action in actions.values() if action.result is not None]
    operation = Operation(
        summary="have something done to the server: the body's one key says what",
        endpoint=act,
        asks=tuple(action.rule for action in actions.values()),
        body=_bodies(actions),
        status=202,
        other_statuses=tuple(sorted({action.status for action in actions.values()} - {202})),
        result={"anyOf": [{"type": "null"}, *results]},
        errors=(409, 501),
    )
    return {"/servers/{server_id}/action": {"POST": operation}}


def _bodies(actions: Actions) -> Versions:
    """Return the schemas of the body, at each microversion at which it changes."""
    changes = {MICROVERSIONS.lowest}
    for action in actions.values():
        changes |= {action.since, *(action.body.schemas if isinstance(action.body, Versions) else ())}
        changes |= {(major, minor + 1) for major, minor in (action.until,)}
    return Versions({version: _schema_at(actions, version) for version in sorted(changes)})


def _schema_at(actions: Actions, version: Version) -> Schema:
    return {
        "oneOf": [
            {
                "type": "object",
                "properties": {name: {} if (body := action.body_at(version)) is None else body},
                "required": [name],
                "additionalProperties": False,
            }
            for name, action in actions.items()
            if action.since <= version <= action.until
        ]
    }
