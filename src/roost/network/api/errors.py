"""How the network service's errors are answered, in the Network API's own words."""

from typing import Any

from starlette.requests import Request

from roost.network import errors
from roost.platform.auth import Forbidden
from roost.platform.errors import BadRequest, Conflict, NotFound, RoostError
from roost.platform.http import Problem

BY_STATUS: dict[int, tuple[type[RoostError], ...]] = {
    400: (
        errors.InvalidInput, errors.SegmentsSetInConjunctionWithProviders, errors.SegmentsContainDuplicateEntry,
        errors.SubnetsNotAllAssociatedWithSegments, errors.NetworkIdsDontMatch, errors.OutOfBoundsAllocationPool,
        errors.DNSNameServersExhausted, errors.HostRoutesExhausted, errors.SubnetSegmentAssociationChangeNotAllowed,
        errors.NoUpdateSubnetWhenMultipleSegmentsOnNetwork, errors.InvalidSubnetServiceType,
        errors.AllocationOnAutoAddressSubnet, errors.InvalidIpForNetwork, errors.InvalidIpForSubnet,
        errors.FixedIpsSubnetsNotOnSameSegment, errors.AllowedAddressPairsMissingIP,
        errors.AllowedAddressPairExhausted, errors.DuplicateAddressPairInRequest,
    ),
    404: (
        errors.AgentNotFound, errors.NetworkNotFound, errors.SegmentNotFound, errors.SubnetNotFound,
        errors.PortNotFound, errors.PortBindingNotFound, errors.TenantQuotaNotFound, errors.TagResourceNotFound,
        errors.TagNotFound,
    ),
    409: (
        errors.VlanIdInUse, errors.FlatNetworkInUse, errors.TunnelIdInUse, errors.InvalidSharedSetting,
        errors.NetworkMTUSubnetConflict, errors.NetworkInUse, errors.SegmentInUse, errors.SubnetInUse,
        errors.PortBindingAlreadyActive, errors.PortBindingAlreadyExists, errors.PortBound, errors.PortInUse,
        errors.OverlappingAllocationPools, errors.GatewayConflictWithAllocationPools, errors.GatewayIpInUse,
        errors.IpAddressGenerationFailure, errors.IpAddressGenerationFailureNoMatchingSubnet,
        errors.IpAddressAlreadyAllocated, errors.MacAddressInUse, errors.HostNotCompatibleWithFixedIps,
        errors.HostNotConnectedToAnySegment, errors.OverQuota, errors.AddressPairAndPortSecurityRequired,
    ),
    412: (errors.RevisionNumberConstraintFailed,),
    503: (errors.AddressesWithheld, errors.PortChanged, errors.PublicationPending),
}  # fmt: skip

PROBLEMS: dict[type[Exception], Problem] = {
    **{kind: Problem(status, code=kind.__name__) for status, kinds in BY_STATUS.items() for kind in kinds},
    errors.PortNotCompute: Problem(400, code="BadRequest"),
    Forbidden: Problem(403, code="PolicyNotAuthorized"),
    BadRequest: Problem(400, code="HTTPBadRequest"),
    NotFound: Problem(404, code="HTTPNotFound"),
    Conflict: Problem(409, code="HTTPConflict"),
}


def neutron_error(problem: Problem, detail: str, _request: Request) -> dict[str, Any]:
    """Return the body of a refusal. Source: Network API v2.0, error bodies."""
    kind = problem.code or f"HTTP{problem.title.replace(' ', '')}"
    return {"NeutronError": {"type": kind, "message": detail, "detail": ""}}
