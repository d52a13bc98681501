"""Networks, subnets, ports and addresses as data, for the tables of the rules."""

import ipaddress
from typing import Any

from tests.network.cloud import NEVER, PROJECT

from roost.network.model.networks import Network, Provider, ProviderSource, Subnet
from roost.network.model.ports import Address, Port
from roost.network.rules.subnets import plan_subnet


def a_network(network_id: str = "n", **fields: Any) -> Network:
    plain: dict[str, Any] = {
        "id": network_id, "name": "net", "project_id": PROJECT, "description": "", "network_type": None,
        "physical_network": None, "segmentation_id": None, "revision": 1, "created_at": NEVER, "updated_at": NEVER,
    }  # fmt: skip
    return Network(**{**plain, **fields})


def a_subnet(subnet_id: str = "s", cidr: str = "10.0.0.0/29", **fields: Any) -> Subnet:
    """Return a subnet of network n with the default gateway and pool."""
    plan = plan_subnet(cidr)
    plain: dict[str, Any] = {
        "id": subnet_id, "network_id": "n", "segment_id": None, "name": "", "description": "", "project_id": PROJECT,
        "ip_version": ipaddress.ip_network(cidr).version, "cidr": cidr, "gateway_ip": plan.gateway_ip,
        "enable_dhcp": True, "revision": 1, "created_at": NEVER, "updated_at": NEVER,
        "pools": plan.pools,
    }  # fmt: skip
    return Subnet(**{**plain, **fields})


def an_address(address: str, subnet_id: str = "s", provider_uuid: str = "n", **fields: Any) -> Address:
    plain = {"port_id": "p", "in_pool": True, "claimed": True, **fields}
    return Address(subnet_id=subnet_id, address=address, provider_uuid=provider_uuid, **plain)


def a_port(*addresses: Address, **fields: Any) -> Port:
    """Return a client's port of network n, without a host."""
    plain: dict[str, Any] = {
        "id": "p", "network_id": "n", "project_id": PROJECT, "name": "", "description": "",
        "mac_address": "fa:16:3e:00:00:01", "admin_state_up": True, "device_id": "", "device_owner": "",
        "ip_allocation": "immediate", "host": None, "vnic_type": "normal", "binding_profile": "{}",
        "vif_type": "unbound", "made_for": None, "reserved_from": None, "revision": 1, "created_at": NEVER,
        "updated_at": NEVER, "addresses": addresses,
    }  # fmt: skip
    return Port(**{**plain, **fields})


def a_provider(
    provider_uuid: str, physical_network: str | None, *subnets: Subnet, cell: str | None = None, name: str = "name"
) -> Provider:
    return Provider(
        provider_uuid=provider_uuid, name=name, physical_network=physical_network, cell=cell, subnets=subnets
    )


def a_source(provider_uuid: str = "n", *subnets: Subnet, **fields: Any) -> ProviderSource:
    """Return what stands behind a plain network's provider."""
    plain: dict[str, Any] = {"routed": False, "physical_network": None}
    return ProviderSource(provider_uuid=provider_uuid, subnets=subnets, **{**plain, **fields})


SLAAC = {"ipv6_ra_mode": "slaac", "ipv6_address_mode": "slaac"}
