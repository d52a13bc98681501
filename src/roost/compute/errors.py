"""What the compute service cannot do, as its callers can act on it."""

from roost.platform.auth import Forbidden
from roost.platform.errors import BadRequest, Conflict, NotFound, Retry, RoostError


class FlavorNotFound(NotFound):
    """There is no such flavor."""


class FlavorExists(Conflict):
    """There is a flavor with that id or name already."""


class ExtraSpecRefused(BadRequest):
    """No server can be made of a flavor with that extra spec."""


class HostNotFound(NotFound):
    """There is no such host."""


class HostHeld(Conflict):
    """Another agent serves the host. retry_after_s: until its lease ends, unless it is renewed."""

    def __init__(self, message: str, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class AgentRefused(Conflict):
    """The agent's secret is not its own, or two of it run. retry_after_s: when it may be served; None: never."""

    def __init__(self, message: str, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class HostInUse(Conflict):
    """Servers are on the host, or on their way to or from it."""


class HostAggregateNotFound(NotFound):
    """There is no such host aggregate."""


class HostAggregateExists(Conflict):
    """There is another host aggregate with that name."""


class HostAggregateProtected(Conflict):
    """The network service keeps that host aggregate."""


class HostAggregateRefused(BadRequest):
    """The host aggregate cannot be changed so."""


class HostZoneConflict(Conflict):
    """The host's availability zone would be two, or would change below its servers."""


class HostNotInAggregate(NotFound):
    """The host is not in that aggregate."""


class HostAggregatesBusy(Conflict):
    """Others kept changing the aggregates of the same hosts."""

    retry = Retry.NOW


class GuestNotFound(NotFound):
    """There is no such guest."""


class GuestWanted(Conflict):
    """The guest's server is to run on that host."""


class ServerNotFound(NotFound):
    """There is no such server."""


class NetworkNotOfServer(NotFound):
    """The server has no address on that network."""


class PortNotOfServer(NotFound):
    """The server has no such NIC."""


class ServerRefused(BadRequest):
    """The server cannot be what the request says."""


class HostClosed(Conflict):
    """The one host that a server may be on takes no server now."""


class NicForbidden(Forbidden):
    """The network is there, but not for a server of that project, or not with that address."""


class NetworkAmbiguous(Conflict):
    """Multiple possible networks found, use a Network ID to be more specific."""


class FilterInvalid(BadRequest):
    """The list cannot be narrowed in that way."""


class ActionRefused(Conflict):
    """The server is in no state for what was asked of it."""


class ActionNotFound(NotFound):
    """Nothing was asked of the server by that request."""


class ActionUnsupported(RoostError):
    """No driver of Roost can do that."""


class MetadataNotFound(NotFound):
    """Metadata item was not found"""


class MetadataFull(Forbidden):
    """The server has as many metadata items as it may have."""


class OverQuota(Forbidden):
    """The project has as much as it may have."""


class QuotaTooSmall(BadRequest):
    """The project has more already."""


class TagNotFound(NotFound):
    """The server has no such tag."""


class NotReported(RoostError):
    """Hosts do not report what was asked for."""


class PortsChanging(Conflict):
    """The ports of a server change all the time; the call can be repeated."""

    retry = Retry.NOW


class GuestNotAdopted(Conflict):
    """An unknown guest cannot become a server's."""


class HostNotCovered(Forbidden):
    """The agent's token is not for that host."""


class TooManyWaitingHosts(Forbidden):
    """As many hosts of the token wait to be accepted as may."""


class NoHostWaiting(NotFound):
    """No host that waits to be accepted has such a name."""


class AgentTokenNotFound(NotFound):
    """There is no such agent token."""


class MigrationNotFound(NotFound):
    """There is no such migration."""


class MigrationRefused(BadRequest):
    """The migration is not in a state for that."""
