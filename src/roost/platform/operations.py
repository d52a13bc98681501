"""What an HTTP API does, declared once: an operation is one method of one path, and whoever adds one writes it into a
table. Routes, the checks before an endpoint and the OpenAPI document (openapi.py) follow from the table.

A wing gives what differs: its `Api` says no in its own dialect, and its checks come in the order in which its clients
expect errors.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from roost.platform.auth import Policy, caller_of
from roost.platform.bodies import JSON, check_media_type
from roost.platform.errors import BadRequest, RequestTimeout
from roost.platform.http import Api, Endpoint, Version, json_response

READ_S = 10.0
"""What a GET may take. An API that waits for its database has the listener's time-out for GETs too."""

Schema = Mapping[str, Any]
"""A JSON Schema."""


class Versions(Struct, frozen=True):
    """A schema, or a type, that changes with the microversion. schemas: the first version of each, ascending -> it."""

    schemas: Mapping[Version, Any]

    def at(self, version: Version) -> Any:
        """Return the schema in force; the lowest one below all of them."""
        in_force = next(iter(self.schemas.values()))
        for since, schema in self.schemas.items():
            if version >= since:
                in_force = schema
        return in_force


Serve = Callable[[Request], Awaitable[Any]]
"""Returns the body of success, which has the operation's status, None for none; or a whole Response."""


class Rule(Struct, frozen=True):
    """A policy rule of oslo.policy. default: its check, unless a policy file says otherwise."""

    name: str
    default: str


class Operation(Struct, frozen=True, kw_only=True):
    """One method of one path.

    rule: asked before the endpoint, None for none. asks: rules that the endpoint asks itself. since, until: the first
    and the last microversion that have it, None: the API's own; at others the answer is status_before, with text_before
    if there is one. body: what is read, whole: a schema, or the type that it is decoded as. query: the schema of the
    parameters. path: parameters of the path that are narrower than others of their name. status: of success;
    other_statuses: of success without a body. result: the body of success at the highest microversion, None for
    none. errors: statuses of refusals that do not follow from all this. needs_token: whether callers must authenticate.
    owner_may: the rule is not asked about the caller's own project, which the path names.
    """

    summary: str
    endpoint: Serve
    rule: Rule | None = None
    asks: tuple[Rule, ...] = ()
    since: Version | None = None
    until: Version | None = None
    status_before: int = 404
    text_before: str | None = None
    body: Any = None
    query: Any = None
    path: Mapping[str, Schema] = {}
    status: int = 200
    other_statuses: tuple[int, ...] = ()
    result: Any = None
    errors: tuple[int, ...] = ()
    needs_token: bool = True
    owner_may: bool = False

    def serves(self, version: Version) -> bool:
        """Return whether there is the operation at this microversion."""
        return (self.since is None or self.since <= version) and (self.until is None or version <= self.until)


Operations = Mapping[str, Mapping[str, Operation]]
"""Path -> method -> operation."""

Check = Callable[[Request], Awaitable[None] | None]
"""Raises what keeps a request from its endpoint."""

ChecksOf = Callable[[str, str, Operation], Sequence[Check | None]]
"""(path, method, operation) -> its checks, in order; None for one that has nothing to look at."""


def make_routes(api: Api, operations: Operations, checks_of: ChecksOf) -> list[Route]:
    """Return a route for each path, each endpoint behind its checks."""
    return [
        api.route(
            path,
            {
                method: _endpoint(
                    _ends_soon(operation.endpoint) if method == "GET" and not api.waits else operation.endpoint,
                    [check for check in checks_of(path, method, operation) if check],
                    operation.status,
                )
                for method, operation in methods.items()
            },
        )
        for path, methods in operations.items()
    ]


def _ends_soon(serve: Serve) -> Serve:
    async def read(request: Request) -> Any:
        try:
            async with asyncio.timeout(READ_S) as limit:
                return await serve(request)
        except TimeoutError as error:
            if not limit.expired():
                raise
            text = f"nothing was read within {READ_S:g} s: ask for less, or again: the database is slow"
            raise RequestTimeout(text) from error

    return read


def _endpoint(serve: Serve, checks: Sequence[Check], status: int) -> Endpoint:
    async def answer(request: Request) -> Response:
        for check in checks:
            waiting = check(request)
            if waiting is not None:
                await waiting
        answered = await serve(request)
        return answered if isinstance(answered, Response) else json_response(answered, status)

    return answer


def version_check(operation: Operation) -> Check | None:
    """Return the check that there is the operation at the request's microversion."""
    if operation.since is None and operation.until is None:
        return None

    def check(request: Request) -> None:
        if not operation.serves(version_of(request)):
            raise HTTPException(operation.status_before, operation.text_before)

    return check


def media_type_check(operation: Operation) -> Check:
    """Return the check that a body says it is JSON and is there if one is read; else, that the client takes JSON."""
    shows_only = operation.result is not None and operation.body is None

    def check(request: Request) -> None:
        if not request.headers.get("content-type", "").strip() and request.headers.get("content-length", "0") != "0":
            raise BadRequest("content-type header required when content-length > 0")
        if operation.body is not None:
            check_media_type(request)
        accept = request.headers.get("accept") if shows_only else None
        if accept and "*/*" not in accept and JSON not in accept and "application/*" not in accept:
            raise HTTPException(406, f"Only {JSON} is provided")

    return check


def policy_check(policy: Policy, operation: Operation) -> Check | None:
    """Return the check that the operation's rule lets the caller do it in the caller's project."""
    if operation.rule is None:
        return None
    name = operation.rule.name
    return lambda request: policy.enforce(caller_of(request.scope), name)


def collect_defaults(operations: Operations, others: Mapping[str, str]) -> dict[str, str]:
    """Return the default of each policy rule: of those that operations declare, and of `others`."""
    defaults = dict(others)
    declared = [operation for methods in operations.values() for operation in methods.values()]
    for rule in [rule for operation in declared for rule in (operation.rule, *operation.asks) if rule]:
        default = defaults.setdefault(rule.name, rule.default)
        assert default == rule.default, f"{rule.name} has two defaults: {default}, {rule.default}"
    return defaults


def make_rules(
    checks: Mapping[str, str], operations: Operations, others: Mapping[str, str], *, scope_types: list[str]
) -> list[Any]:
    """Return the policy rules of an API with their defaults, as oslo.policy takes them.

    checks: what rules refer to. others: rules that no operation declares.
    """
    from roost.platform import policy  # with oslo.policy, 0.2 s, for which who asks nobody need not wait

    defaults = collect_defaults(operations, others)
    return [*policy.make_rules(checks), *policy.make_rules(defaults, scope_types=scope_types)]


def version_of(request: Request) -> Version:
    """Return the microversion that the request asked for."""
    version: Version = request.state.microversion
    return version
