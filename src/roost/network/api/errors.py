"""How the network service's errors are answered, in the Network API's own words."""

from typing import Any

from starlette.requests import Request

from roost.network import errors
from roost.platform.auth import Forbidden
from roost.platform.errors import BadRequest, Conflict, NotFound, RoostError
from roost.platform.http import Api, Problem

STATUSES: dict[type[RoostError], int] = {
    errors.PortChanged: 503,
    errors.AddressesWithheld: 503,
    errors.PublicationPending: 503,
    errors.RevisionNumberConstraintFailed: 412,
    BadRequest: 400,
    NotFound: 404,
    Conflict: 409,
}
"""Kind of error -> its status; the first kind that an error is of counts."""

PROBLEMS: dict[type[Exception], Problem] = {
    **{
        kind: Problem(next(STATUSES[base] for base in STATUSES if issubclass(kind, base)), code=kind.__name__)
        for kind in vars(errors).values()
        if isinstance(kind, type) and kind.__module__ == errors.__name__
    },
    errors.PortNotCompute: Problem(400, code="BadRequest"),
    Forbidden: Problem(403, code="PolicyNotAuthorized"),
}
"""Every error of the wing is answered by its own name, but for one."""


def neutron_error(problem: Problem, detail: str, _request: Request) -> dict[str, Any]:
    """Return the body of a refusal. Source: Network API v2.0, error bodies."""
    kind = problem.code or f"HTTP{problem.title.replace(' ', '')}"
    return {"NeutronError": {"type": kind, "message": detail, "detail": ""}}


API = Api(problems=PROBLEMS, dialect=neutron_error)
