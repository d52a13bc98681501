"""Orders for guests, as the compute service makes them."""

import os
from typing import Any

from roost.agent.drivers.qemu.command import Account
from roost.seams.agent import GuestOrder
from roost.seams.compute import ServerPort
from roost.seams.guests import NicNetwork, NicSegment, NicSubnet

OWN_ACCOUNT = Account(uid=os.getuid(), gid=os.getgid())
SERVER_ID = "5b0ac5b1-7c35-4d2a-9f0e-8f0f2f7b0001"
PORT_ID = "0a1b2c3d-4e5f-4a6b-8c7d-9e0f1a2b3c4d"
NETWORK_ID = "77777777-7777-4777-8777-777777777777"
SEGMENT_ID = "66666666-6666-4666-8666-666666666666"
MAC = "52:54:00:00:00:02"
SUBNET = NicSubnet(cidr="10.1.0.0/24", gateway="10.1.0.1")
SUBNET_V6 = NicSubnet(cidr="2001:db8::/64", gateway="2001:db8::1", ra_mode="slaac", address_mode="slaac")
FLAT = NicSegment(id=SEGMENT_ID, network_type="flat", physical_network="rack1")


def make_port(port_id: str | None = PORT_ID, mac: str = MAC, addresses: tuple[str, ...] = ("10.1.0.2",)) -> ServerPort:
    return ServerPort(
        port_id=port_id,
        tag="",
        network_id=NETWORK_ID,
        network_name="public",
        mac_address=mac,
        addresses=addresses,
        preserve_on_delete=False,
    )


def make_network(**other: Any) -> NicNetwork:
    return NicNetwork(**{"port_id": PORT_ID, "segment": FLAT, "subnets": (SUBNET,)} | other)


def make_order(desired: Any = "running", **other: Any) -> GuestOrder:
    parts: dict[str, Any] = {
        "server_id": SERVER_ID,
        "host": "h1",
        "attempt": 1,
        "vcpus": 1,
        "ram_mb": 96,
        "disk_gb": 0,
        "hostname": "web",
        "ports": (make_port(),),
        "networks": (make_network(),),
    }
    return GuestOrder(desired=desired, **parts | other)
