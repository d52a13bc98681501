"""Servers that are to leave their hosts, with all that goes into what each asks of another host."""

from collections.abc import Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from roost.compute.model.cloud import HostAggregate
from roost.compute.model.server import Server
from roost.compute.service.aggregates import list_with_metadata
from roost.network.service.moves import read_ports
from roost.network.service.views import get_networks
from roost.scheduling.host_aggregates import aggregates_asked
from roost.scheduling.request import Request, build_request
from roost.seams.network import NetworkView, Port, ServerNics
from roost.seeing.service.context import Seeing


class RequestParts(Struct, frozen=True, kw_only=True):
    """What servers' requests are made of besides the servers. ports: by server id; networks: by id, of all ports."""

    ports: Mapping[str, tuple[Port, ...]]
    networks: Mapping[str, NetworkView]
    aggregates: Sequence[HostAggregate]
    default_zone: str

    def request(self, server: Server, *, readdresses: bool = False) -> Request:
        """Return the request as the conductor builds it for a move. A port whose network is just gone asks for nothing.

        readdresses: the server may get other addresses on routed networks.
        """
        ports = [port for port in self.ports[server.id] if port.network_id in self.networks]
        return build_request(
            replace(server.spec, forced_host=None),
            [self._free(port) for port in ports] if readdresses else ports,
            self.networks,
            free_to_leave=readdresses,
            aggregates=aggregates_asked(
                self.aggregates,
                zone=server.spec.availability_zone,
                default_zone=self.default_zone,
                project_id=server.project_id,
            ),
        )

    def _free(self, port: Port) -> Port:
        """Return the port as a host is sought for it that may give it another address."""
        if port.addresses and not port.pools and self.networks[port.network_id].routed:
            return replace(port, pinned=False, tag=port.tag or port.id)
        return port


async def read_request_parts(seeing: Seeing, servers: Sequence[Server]) -> RequestParts:
    """Return what the requests of these servers are made of."""
    nics = [ServerNics(server_id=s.id, project_id=s.project_id, nics=s.spec.nics) for s in servers]
    ports = {answer.server_id: answer.ports for answer in await read_ports(seeing.networks, nics)}
    network_ids = {port.network_id for ports_of_server in ports.values() for port in ports_of_server}
    return RequestParts(
        ports=ports,
        networks=await get_networks(seeing.networks, sorted(network_ids)),
        aggregates=await list_with_metadata(seeing.compute),
        default_zone=seeing.compute.settings.default_availability_zone,
    )
