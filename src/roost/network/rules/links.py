"""Decides which link may carry a segment. No link carries two. Source: Neutron's type drivers."""

from collections.abc import Iterable, Mapping, Sequence

from roost.network.errors import (
    FlatNetworkInUse,
    InvalidInput,
    NetworkMTUSubnetConflict,
    SegmentsContainDuplicateEntry,
    TunnelIdInUse,
    VlanIdInUse,
)
from roost.network.model.networks import Link, Network, Subnet

NETWORK_TYPES = ("flat", "vlan", "vxlan", "gre", "geneve", "local")
SEGMENTATION_ID_MAX = 16777215
VLAN_ID_MAX = 4094
MTU_MIN = {4: 68, 6: 1280}


def refuse_link(link: Link, prefix: str = "") -> None:
    """Raise InvalidInput for a link that cannot exist. prefix: of the attributes' names in the error."""
    kind, number = link.network_type, link.segmentation_id
    if kind not in NETWORK_TYPES:
        raise InvalidInput(f"{prefix}network_type '{kind}': expected one of {', '.join(NETWORK_TYPES)}.")
    if kind in ("flat", "vlan") and not link.physical_network:
        raise InvalidInput(f"{prefix}network_type {kind} needs a {prefix}physical_network.")
    if kind not in ("flat", "vlan") and link.physical_network is not None:
        raise InvalidInput(f"{prefix}physical_network: a {kind} network has none, leave it out.")
    if kind in ("flat", "local") and number is not None:
        raise InvalidInput(f"{prefix}segmentation_id: a {kind} network has none, leave it out.")
    if kind == "vlan" and number is not None and not 1 <= number <= VLAN_ID_MAX:
        raise InvalidInput(f"{prefix}segmentation_id {number}: a vlan has one from 1 to {VLAN_ID_MAX}.")
    if number is not None and number > SEGMENTATION_ID_MAX:
        raise InvalidInput(f"{prefix}segmentation_id {number}: expected at most {SEGMENTATION_ID_MAX}.")


def exclusive(links: Iterable[Link]) -> list[Link]:
    """Return the links that only one segment can have: those with a number, and whole physical networks."""
    return [link for link in links if link.segmentation_id is not None or link.network_type == "flat"]


def refuse_taken(wanted: Sequence[Link], taken: Sequence[tuple[Link, str]]) -> None:
    """Raise SegmentsContainDuplicateEntry when two of the wanted links are the same.

    Raise FlatNetworkInUse, VlanIdInUse or TunnelIdInUse for the first link that a segment has already.
    taken: (link, id of its network), of the wanted links that segments have.
    """
    if len(set(wanted)) < len(wanted):
        raise SegmentsContainDuplicateEntry("Two of the segments are the same: each has a segmentation_id of its own.")
    for link, network_id in taken:
        if link.network_type == "flat":
            raise FlatNetworkInUse(f"Physical network {link.physical_network} is in use by network {network_id}.")
        if link.network_type == "vlan":
            raise VlanIdInUse(
                f"The VLAN {link.segmentation_id} on physical network {link.physical_network} is in use by network "
                f"{network_id}: choose another segmentation_id."
            )
        raise TunnelIdInUse(
            f"The {link.network_type} tunnel {link.segmentation_id} is in use by network {network_id}: choose another "
            "segmentation_id."
        )


def refuse_other_link(network: Network, said: Mapping[str, str | int | None]) -> None:
    """Raise InvalidInput when a change names another link than the network's. said: attribute -> value."""
    (link,) = network.links if len(network.links) == 1 else (None,)
    for name, value in said.items():
        if value != getattr(link or network, name):
            raise InvalidInput(f"provider:{name} cannot be changed: make another segment or network instead.")


def refuse_small_mtu(mtu: int, subnets: Iterable[Subnet]) -> None:
    """Raise NetworkMTUSubnetConflict when an MTU is too small for the IP version of one of the network's subnets.

    Source: Neutron, _validate_subnet_network_mtu, and the same on update of the network.
    """
    for subnet in subnets:
        if mtu < MTU_MIN[subnet.ip_version]:
            raise NetworkMTUSubnetConflict(
                f"MTU {mtu} is less than {MTU_MIN[subnet.ip_version]}, the least for IPv{subnet.ip_version} subnet "
                f"{subnet.id}."
            )
