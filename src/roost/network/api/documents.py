"""Networks, segments, subnets and ports as the Network API shows them. Source: Network API v2.0 reference."""

from datetime import datetime
from typing import Any

import msgspec

from roost.network import addressing
from roost.network.model import Network, Port, Segment, Subnet

Document = dict[str, Any]


def network(item: Network) -> Document:
    """One network."""
    return {
        "id": item.id,
        "name": item.name,
        "tenant_id": item.project_id,
        "project_id": item.project_id,
        "description": item.description,
        "admin_state_up": item.admin_state_up,
        "status": "ACTIVE" if item.admin_state_up else "DOWN",
        "shared": item.shared,
        "router:external": item.external,
        "mtu": item.mtu,
        "subnets": list(item.subnet_ids),
        "availability_zone_hints": [],
        "availability_zones": [],
        "ipv4_address_scope": None,
        "ipv6_address_scope": None,
        "port_security_enabled": False,
        "l2_adjacency": not item.segmented,
        "provider:network_type": item.network_type,
        "provider:physical_network": item.physical_network,
        "provider:segmentation_id": item.segmentation_id,
        "tags": list(item.tags),
        **_times(item.created_at, item.updated_at, item.revision),
    }


def segment(item: Segment) -> Document:
    """One segment."""
    return {
        "id": item.id,
        "network_id": item.network_id,
        "name": item.name,
        "description": item.description,
        "network_type": item.network_type,
        "physical_network": item.physical_network,
        "segmentation_id": item.segmentation_id,
        "tags": list(item.tags),
        **_times(item.created_at, item.updated_at, item.revision),
    }


def subnet(item: Subnet) -> Document:
    """One subnet."""
    pools = [{"start": addressing.show(pool.first), "end": addressing.show(pool.last)} for pool in item.pools]
    return {
        "id": item.id,
        "name": item.name,
        "tenant_id": item.project_id,
        "project_id": item.project_id,
        "description": item.description,
        "network_id": item.network_id,
        "segment_id": item.segment_id,
        "ip_version": item.ip_version,
        "cidr": item.cidr,
        "gateway_ip": item.gateway_ip,
        "allocation_pools": pools,
        "enable_dhcp": item.enable_dhcp,
        "dns_nameservers": list(item.dns_nameservers),
        "host_routes": [{"destination": r.destination, "nexthop": r.nexthop} for r in item.host_routes],
        "ipv6_ra_mode": item.ipv6_ra_mode,
        "ipv6_address_mode": item.ipv6_address_mode,
        "service_types": list(item.service_types),
        "subnetpool_id": None,
        "tags": list(item.tags),
        **_times(item.created_at, item.updated_at, item.revision),
    }


def port(item: Port) -> Document:
    """One port."""
    bound = item.host is not None
    return {
        "id": item.id,
        "name": item.name,
        "tenant_id": item.project_id,
        "project_id": item.project_id,
        "description": item.description,
        "network_id": item.network_id,
        "mac_address": item.mac_address,
        "admin_state_up": item.admin_state_up,
        "status": "ACTIVE" if bound else "DOWN",
        "device_id": item.device_id,
        "device_owner": item.device_owner,
        "fixed_ips": [{"subnet_id": held.subnet_id, "ip_address": held.address} for held in item.addresses],
        "ip_allocation": item.ip_allocation,
        "allowed_address_pairs": [],
        "extra_dhcp_opts": [],
        "security_groups": [],
        "port_security_enabled": False,
        "binding:host_id": item.host or "",
        "binding:vnic_type": item.vnic_type,
        "binding:vif_type": item.vif_type,
        "binding:vif_details": {},
        "binding:profile": msgspec.json.decode(item.binding_profile),
        "tags": list(item.tags),
        **_times(item.created_at, item.updated_at, item.revision),
    }


def _times(created_at: datetime, updated_at: datetime, revision: int) -> Document:
    return {
        "revision_number": revision,
        "created_at": created_at.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "updated_at": updated_at.strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
