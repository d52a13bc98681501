"""How the Compute API says no, and which microversions it serves."""

from collections.abc import Mapping
from typing import Any

from starlette.requests import Request

from roost.compute.errors import ActionUnsupported, NotReported
from roost.platform.http import Api, Microversions, Problem
from roost.seams.image import ImageServiceUnavailable

MICROVERSIONS = Microversions(
    service="compute", lowest=(2, 1), highest=(2, 96), legacy_header="X-OpenStack-Nova-API-Version"
)

FAULTS: Mapping[int, str] = {
    400: "badRequest",
    401: "unauthorized",
    403: "forbidden",
    404: "itemNotFound",
    405: "badMethod",
    409: "conflictingRequest",
    413: "overLimit",
    415: "badMediaType",
    429: "overLimit",
    501: "notImplemented",
    503: "serviceUnavailable",
}
"""Source: nova/api/openstack/wsgi.py, Fault; everything else is a computeFault."""


def nova_fault(problem: Problem, detail: str, _request: Request) -> dict[str, Any]:
    """Return the error's body in Nova's dialect."""
    return {FAULTS.get(problem.status, "computeFault"): {"code": problem.status, "message": detail}}


PROBLEMS: Mapping[type[Exception], Problem] = {
    NotReported: Problem(501, title="Not Implemented"),
    ActionUnsupported: Problem(501, title="Not Implemented"),
    ImageServiceUnavailable: Problem(503, title="Service Unavailable"),
}

API = Api(problems=PROBLEMS, dialect=nova_fault, microversions=MICROVERSIONS)
UNVERSIONED = Api(dialect=nova_fault)
"""For the version documents: who asks for those does not know yet which microversions there are."""
