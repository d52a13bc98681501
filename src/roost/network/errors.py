"""What the network service refuses, by the names that the Network API gives its errors."""

from roost.platform.errors import BadRequest, Conflict, NotFound, Retry, RoostError


class AllowedAddressPairsMissingIP(BadRequest):
    """An allowed address pair names no address."""


class AllowedAddressPairExhausted(BadRequest):
    """A port has too many allowed address pairs."""


class DuplicateAddressPairInRequest(BadRequest):
    """Two allowed address pairs of a port are the same."""


class AddressPairAndPortSecurityRequired(Conflict):
    """Only a port with port security has allowed address pairs."""


class AgentNotFound(NotFound):
    """There is no such agent."""


class NetworkNotFound(NotFound):
    """There is no such network."""


class SegmentNotFound(NotFound):
    """There is no such segment."""


class SubnetNotFound(NotFound):
    """There is no such subnet."""


class PortNotFound(NotFound):
    """There is no such port."""


class TagResourceNotFound(NotFound):
    """There is no such resource that could have tags."""

    def __init__(self, plural: str, resource_id: str) -> None:
        super().__init__(f"Resource {plural} {resource_id} could not be found.")


class TagNotFound(NotFound):
    """The resource has no such tag."""


class InvalidInput(BadRequest):
    """The request cannot be understood."""


class SegmentsSetInConjunctionWithProviders(BadRequest):
    """A network is made with segments or with provider attributes, not with both."""


class SegmentsContainDuplicateEntry(BadRequest):
    """Two segments of a network are the same."""


class VlanIdInUse(Conflict):
    """Another segment has the VLAN of the physical network."""


class FlatNetworkInUse(Conflict):
    """Another segment has the physical network for itself."""


class TunnelIdInUse(Conflict):
    """Another segment has the tunnel."""


class InvalidSharedSetting(Conflict):
    """Other projects have ports on the shared network."""


class NetworkMTUSubnetConflict(Conflict):
    """The MTU is too small for a subnet of the network."""


class NetworkInUse(Conflict):
    """The network still has ports, or builds and guests hold addresses of it: delete those first."""


class SegmentInUse(Conflict):
    """The segment still has subnets: delete those first."""


class SubnetInUse(Conflict):
    """Ports or builds still hold addresses of the subnet: delete those first."""


class SubnetsNotAllAssociatedWithSegments(BadRequest):
    """Either all subnets of a network belong to segments, or none does."""


class NetworkIdsDontMatch(BadRequest):
    """The subnet and its segment belong to different networks."""


class OutOfBoundsAllocationPool(BadRequest):
    """The allocation pool is not within the subnet's host addresses."""


class OverlappingAllocationPools(Conflict):
    """Two allocation pools share addresses."""


class GatewayConflictWithAllocationPools(Conflict):
    """The gateway is within an allocation pool."""


class GatewayIpInUse(Conflict):
    """A router's port holds the subnet's gateway address."""


class DNSNameServersExhausted(BadRequest):
    """A subnet cannot have so many name servers."""


class HostRoutesExhausted(BadRequest):
    """A subnet cannot have so many routes."""


class SubnetSegmentAssociationChangeNotAllowed(BadRequest):
    """The subnet belongs to a segment already, for good."""


class NoUpdateSubnetWhenMultipleSegmentsOnNetwork(BadRequest):
    """The network has several segments, so that none of its subnets can join one later."""


class InvalidSubnetServiceType(InvalidInput):
    """The subnet's service type is no device owner."""


class AllocationOnAutoAddressSubnet(InvalidInput):
    """Addresses of the subnet follow from MAC addresses: none can be named."""


class InvalidIpForNetwork(BadRequest):
    """The address is in no subnet of the network."""


class InvalidIpForSubnet(BadRequest):
    """The address is no host address of the subnet."""


class FixedIpsSubnetsNotOnSameSegment(BadRequest):
    """The fixed addresses of a port must all be on one segment."""


class IpAddressGenerationFailure(Conflict):
    """No more addresses are available."""

    retry = Retry.ELSEWHERE


class IpAddressGenerationFailureNoMatchingSubnet(IpAddressGenerationFailure):
    """No subnet of the network is for ports of this device owner."""


class IpAddressAlreadyAllocated(Conflict):
    """Another port holds the address."""


class MacAddressInUse(Conflict):
    """Another port of the network has the MAC address."""


class HostNotCompatibleWithFixedIps(Conflict):
    """The host does not reach the segment of the port's address."""


class HostNotConnectedToAnySegment(Conflict):
    """The host reaches no segment of the network that has addresses."""


class PortBound(Conflict):
    """The port is bound, so its MAC address stays."""


class PortNotCompute(BadRequest):
    """Only ports of servers have several bindings."""


class PortBindingNotFound(NotFound):
    """The port has no binding on the host."""


class PortBindingAlreadyExists(Conflict):
    """The port has a binding on the host."""


class PortBindingAlreadyActive(Conflict):
    """The port's binding on the host is active."""


class PortInUse(Conflict):
    """A server, its build or its guest still has the port."""


class OverQuota(Conflict):
    """The project may not have that many."""


class TenantQuotaNotFound(NotFound):
    """The project has no quota of its own."""


class PortChanged(Conflict):
    """The port changed while it was being worked on; the request can be repeated."""

    retry = Retry.NOW


class RevisionNumberConstraintFailed(RoostError):
    """The resource has another revision than the one the request names."""


class AddressesWithheld(RoostError):
    """The compute service's records went back in time, and do not know yet which addresses guests have."""

    retry = Retry.NOW
    retry_after_s = 5.0
    is_confidential = True  # it names hosts


class PublicationPending(RoostError):
    """The change is made, but the ledger does not know it yet; it will."""

    retry = Retry.NOW
