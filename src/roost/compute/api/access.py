"""What one caller may see and do: policy asked about servers, and about what a request says or an answer shows.

`checks` asks before an endpoint begins. A server that the caller may not see is not found (404); one that the caller
sees and may not do this to is forbidden (403).
"""

from collections.abc import Mapping, Sequence
from functools import partial

from msgspec import Struct
from starlette.requests import Request

from roost.compute.api.errors import MICROVERSIONS
from roost.compute.api.policies import ATTACH_EXTERNAL, IS_ADMIN, SHOW_SERVER
from roost.compute.api.requests import path_project, path_text
from roost.compute.errors import ServerNotFound
from roost.compute.model.server import Permissions, Requester, Server
from roost.compute.service import Compute
from roost.compute.service import servers as service
from roost.compute.service.history import find_deleted_server
from roost.platform.auth import OPERATOR, Caller, Policy, Unrestricted, allows, caller_of
from roost.platform.http import Version, canonical_uuid, is_uuid
from roost.platform.operations import Check, ChecksOf, Operation, policy_check, version_check
from roost.platform.request_ids import global_request_id, request_id_of

ACTION_LOG = "/os-instance-actions"
"""What of a server can be read after its delete. Source: Compute API, microversion 2.21, which every one has here."""


class Access(Struct, frozen=True):
    """A caller and the rules. project_id, user_id: whose is what the caller makes. request_id, version: of the request.

    token: as the caller sent it, None without authentication.
    """

    policy: Policy
    caller: Caller
    project_id: str
    user_id: str
    request_id: str = ""
    version: Version = MICROVERSIONS.lowest
    token: str | None = None

    def enforce(self, rule: str, server: Server | None = None) -> None:
        """Raise Forbidden unless the rule lets the caller do this to the server; None: in the caller's project."""
        self.policy.enforce(self.caller, rule, None if server is None else _target(server))

    def allows(self, rule: str, server: Server | None = None) -> bool:
        """Return whether it does."""
        return allows(self.policy, self.caller, rule, None if server is None else _target(server))

    @property
    def is_admin(self) -> bool:
        """Return whether the caller sees what belongs to no project."""
        return self.allows(IS_ADMIN)

    @property
    def requester(self) -> Requester:
        """Return who asks, for the record of an action."""
        return Requester(
            request_id=self.request_id,
            project_id=self.project_id,
            user_id=self.user_id,
            is_admin=self.is_admin,
            global_request_id=global_request_id(),
        )

    @property
    def permissions(self) -> Permissions | None:
        """Return what servers that the caller makes may use; None: everything."""
        if isinstance(self.policy, Unrestricted):
            return None
        return Permissions(others=self.is_admin, external=self.allows(ATTACH_EXTERNAL))


def access_of(compute: Compute, policy: Policy, request: Request) -> Access:
    """Return what the request's caller may do."""
    caller, request_id, version = caller_of(request.scope), request_id_of(request.scope), request.state.microversion
    token = None if caller == OPERATOR else request.headers.get("x-auth-token")
    if caller == OPERATOR or caller.project_id is None:
        return Access(policy, caller, compute.default_project, compute.default_user, request_id, version, token)
    return Access(policy, caller, caller.project_id, caller.user_id or compute.default_user, request_id, version, token)


def checks(compute: Compute, policy: Policy) -> ChecksOf:
    """Return the checks before each endpoint: microversion, then policy."""

    def checks_of(path: str, _method: str, operation: Operation) -> Sequence[Check | None]:
        asks = policy_check(policy, operation)
        if "{server_id}" in path and operation.rule is not None:
            asks = partial(find_server, compute, policy, operation.rule.name, deleted=ACTION_LOG in path)
        elif "{project_id}" in path and operation.rule is not None:
            asks = partial(_ask_of_project, policy, operation.rule.name)
        return version_check(operation), asks

    return checks_of


def _ask_of_project(policy: Policy, rule: str, request: Request) -> None:
    """Raise Forbidden unless the rule lets the caller do this to the project that the path names."""
    caller = caller_of(request.scope)
    policy.enforce(caller, rule, {"project_id": path_project(request), "user_id": caller.user_id})


async def find_server(compute: Compute, policy: Policy, rule: str, request: Request, *, deleted: bool = False) -> None:
    """Find the server that the path names, for the endpoint. Raises ServerNotFound, Forbidden.

    deleted: also one that is gone, while its history is kept.
    """
    text = path_text(request, "server_id")
    server = await _find_server(compute, canonical_uuid(text), deleted=deleted) if is_uuid(text) else None
    access = access_of(compute, policy, request)
    if server is not None and not access.allows(rule, server):
        if server.project_id == access.caller.project_id or access.allows(SHOW_SERVER, server):
            access.enforce(rule, server)
        server = None
    if server is None:
        raise ServerNotFound(f"Instance {text} could not be found.")
    request.state.server = server


async def _find_server(compute: Compute, server_id: str, *, deleted: bool) -> Server | None:
    try:
        return await service.get_server(compute, server_id)
    except ServerNotFound:
        return await find_deleted_server(compute, server_id) if deleted else None


def _target(server: Server) -> Mapping[str, str | None]:
    return {"project_id": server.project_id, "user_id": server.user_id}
