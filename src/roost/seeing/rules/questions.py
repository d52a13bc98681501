"""What operators ask of servers that do not exist: turned into the request that a boot of such a server would make."""

from collections.abc import Mapping, Sequence
from typing import Annotated

from msgspec import Meta, Struct

from roost.scheduling.filters import narrow
from roost.scheduling.host_aggregates import AggregatesAsked
from roost.scheduling.request import Request, build_request
from roost.scheduling.settings import SchedulingSettings
from roost.seams.compute import RequestSpec
from roost.seams.network import NetworkView, Port

COUNT_MAX = 10_000
NETWORKS_MAX = 100
Text = Annotated[str, Meta(min_length=1, max_length=255, pattern=r"^[^\x00]*$")]


class ServersAsked(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Servers that are not there. flavor: a name or an id; networks: of one NIC each, in order.

    like: a server that has flavor and networks already. host, zone: where they are to be. project: whose they are.
    """

    flavor: Text | None = None
    networks: Annotated[tuple[Text, ...], Meta(max_length=NETWORKS_MAX)] = ()
    like: Text | None = None
    zone: Text | None = None
    host: Text | None = None
    project: Text | None = None


class Question(Struct, frozen=True):
    """What the servers ask of hosts: the alternatives of their request, narrowed. name: of the flavor, or like whom."""

    name: str
    requests: tuple[Request, ...]

    @property
    def possible(self) -> list[Request]:
        """Return what can be asked for."""
        return [request for request in self.requests if request.impossible is None]


def build_question(
    name: str,
    spec: RequestSpec,
    networks: Sequence[NetworkView],
    aggregates: AggregatesAsked,
    settings: SchedulingSettings,
) -> Question:
    """Return what a server of this kind, with a new port on each of these networks, asks of hosts."""
    ports = [
        Port(
            id="",
            tag=str(tag),
            network_id=network.id,
            project_id="",
            mac_address="",
            revision=0,
            preserve_on_delete=False,
            needs_address=True,
            pools=tuple(segment.provider_uuid for segment in network.segments) if network.flat else (),
            is_held=False,
        )
        for tag, network in enumerate(networks)
    ]
    views: Mapping[str, NetworkView] = {network.id: network for network in networks}
    return Question(name, tuple(narrow(build_request(spec, ports, views, aggregates=aggregates), settings)))
