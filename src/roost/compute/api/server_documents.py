"""A server as the Compute API shows it, at the microversion of the request."""

import hashlib
import ipaddress
from typing import Any

from msgspec import Struct
from starlette.requests import Request

from roost.compute.api.access import Access
from roost.compute.api.policies import HOST_ATTRIBUTES, HOST_STATUS, SERVER_EXTRA_SPECS
from roost.compute.api.requests import links, timestamp, timestamp_with_microseconds
from roost.compute.model.cloud import Flavor
from roost.compute.model.server import Server, ServerFault
from roost.compute.rules.servers import fault_details, power_state
from roost.compute.service import Compute


def show_brief(request: Request, server: Server) -> dict[str, Any]:
    """Return it as in a list. Source: Compute API, GET /servers."""
    return {"id": server.id, "name": server.name, "links": links(request, "servers", server.id)}


PROGRESS_BY_STATUS = {"BUILD": 0, "REBUILD": 0, "RESIZE": 0, "MIGRATING": 0, "ACTIVE": 100, "VERIFY_RESIZE": 100}
"""Servers in another status show none. Source: Compute API, GET /servers/{id}, progress."""


class Shown(Struct, frozen=True, kw_only=True):
    """What a caller is shown of servers, beyond what everybody is who sees them. default_zone: of hosts in no other."""

    default_zone: str
    host: bool
    host_status: bool
    extra_specs: bool
    fault_details: bool

    @classmethod
    def of(cls, access: Access, compute: Compute) -> "Shown":
        """Return what policy says of the caller."""
        return cls(
            default_zone=compute.settings.default_availability_zone,
            host=access.allows(HOST_ATTRIBUTES),
            host_status=access.allows(HOST_STATUS),
            extra_specs=access.allows(SERVER_EXTRA_SPECS),
            fault_details=access.is_admin,
        )


def show_server(request: Request, server: Server, shown_to: Shown) -> dict[str, Any]:
    """Return it in full. Source: Compute API, GET /servers/{id}, microversions 2.1 to 2.96."""
    shown = show_brief(request, server) | {
        "status": server.status,
        "tenant_id": server.project_id,
        "user_id": server.user_id,
        "metadata": server.metadata,
        "hostId": host_id(server.project_id, server.host),
        "image": {"id": server.image_ref, "links": links(request, "images", server.image_ref)[1:]}
        if server.image_ref
        else "",
        "flavor": _flavor(request, server.flavor, specs=shown_to.extra_specs),
        "created": timestamp(server.created_at),
        "updated": timestamp(server.updated_at),
        "addresses": _addresses(server),
        "accessIPv4": "",
        "accessIPv6": "",
        "key_name": None,
        "config_drive": "",
        "OS-DCF:diskConfig": "MANUAL",
        "OS-EXT-AZ:availability_zone": server.zone or shown_to.default_zone
        if server.host
        else server.spec.availability_zone or "",
        "OS-EXT-STS:task_state": server.task_state,
        "OS-EXT-STS:vm_state": server.vm_state,
        "OS-EXT-STS:power_state": power_state(server.vm_state, has_crashed=server.has_crashed),
        "OS-SRV-USG:launched_at": timestamp_with_microseconds(server.launched_at),
        "OS-SRV-USG:terminated_at": None,
        "os-extended-volumes:volumes_attached": [],
        "security_groups": [{"name": "default"}],
    }
    if server.status in PROGRESS_BY_STATUS:
        shown["progress"] = PROGRESS_BY_STATUS[server.status]
    if server.fault is not None and server.status == "ERROR":
        shown["fault"] = _fault(server, server.fault, details=shown_to.fault_details)
    if shown_to.host:
        shown |= _host_attributes(request.state.microversion, server)
    return shown | _newer(request.state.microversion, server, host_status=shown_to.host_status)


def show_listed(request: Request, server: Server, shown_to: Shown) -> dict[str, Any]:
    """Return it as in a list with details, where it has no server groups. Source: Compute API, microversion 2.71."""
    shown = show_server(request, server, shown_to)
    shown.pop("server_groups", None)
    return shown


CHANGED_IN_FULL_FROM, HOSTNAME_SHOWN_FROM = (2, 75), (2, 90)

HIDDEN_PREFIXES = ("OS-EXT-", "OS-SRV-USG:", "os-extended-volumes:")
KEY_OF_REBUILT_FROM, USER_DATA_OF_REBUILT_FROM = (2, 54), (2, 57)
HIDDEN = frozenset({"config_drive", "key_name", "security_groups", "host_status"})


def show_changed(request: Request, server: Server, shown_to: Shown) -> dict[str, Any]:
    """Return it as the answer to a change. Source: Compute API, PUT /servers/{id}; all of it only from 2.75 on."""
    if request.state.microversion >= CHANGED_IN_FULL_FROM:
        return show_server(request, server, shown_to)
    return {
        name: value
        for name, value in show_server(request, server, shown_to).items()
        if name not in HIDDEN and not name.startswith(HIDDEN_PREFIXES)
    } | {"addresses": addresses_of(server)}


def show_rebuilt(request: Request, server: Server, shown_to: Shown) -> dict[str, Any]:
    """Return it as the answer to a rebuild. Source: Compute API, rebuild, microversions 2.54, 2.57 and 2.75.

    `user_data` stands in place of the administrator's OS-EXT-SRV-ATTR:user_data.
    """
    version = request.state.microversion
    shown = show_changed(request, server, shown_to)
    shown.pop("OS-EXT-SRV-ATTR:user_data", None)
    shown |= {"key_name": None} if version >= KEY_OF_REBUILT_FROM else {}
    return shown | ({"user_data": None} if version >= USER_DATA_OF_REBUILT_FROM else {})


def _host_attributes(version: tuple[int, int], server: Server) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "OS-EXT-SRV-ATTR:host": server.host,
        "OS-EXT-SRV-ATTR:hypervisor_hostname": server.host,
        "OS-EXT-SRV-ATTR:instance_name": f"instance-{server.id}",
    }
    if version >= (2, 3):
        shown |= {
            "OS-EXT-SRV-ATTR:hostname": server.hostname,
            "OS-EXT-SRV-ATTR:reservation_id": server.reservation_id,
            "OS-EXT-SRV-ATTR:launch_index": server.launch_index,
            "OS-EXT-SRV-ATTR:kernel_id": "",
            "OS-EXT-SRV-ATTR:ramdisk_id": "",
            "OS-EXT-SRV-ATTR:root_device_name": None,
            "OS-EXT-SRV-ATTR:user_data": None,
        }
    return shown


def _newer(version: tuple[int, int], server: Server, *, host_status: bool) -> dict[str, Any]:
    shown: dict[str, Any] = {}
    if version >= (2, 9):
        shown["locked"] = server.locked
    if version >= (2, 16) and host_status:
        shown["host_status"] = "" if server.host is None else "DOWN" if server.host_down else "UP"
    if version >= (2, 19):
        shown["description"] = server.description
    if version >= (2, 26):
        shown["tags"] = server.tags
    if version >= (2, 63):
        shown["trusted_image_certificates"] = None
    if version >= (2, 71):
        shown["server_groups"] = []
    if version >= (2, 73):
        shown["locked_reason"] = server.locked_reason
    if version >= HOSTNAME_SHOWN_FROM:
        shown["OS-EXT-SRV-ATTR:hostname"] = server.hostname
    if version >= (2, 96):
        shown["pinned_availability_zone"] = server.spec.availability_zone
    return shown


def _flavor(request: Request, flavor: Flavor, *, specs: bool) -> dict[str, Any]:
    """Show it: from 2.47 on what it was when the server was made, without its id, for the flavor may be gone by now."""
    if request.state.microversion < (2, 47):
        return {"id": flavor.id, "links": links(request, "flavors", flavor.id)[1:]}
    shown: dict[str, Any] = {
        "vcpus": flavor.vcpus,
        "ram": flavor.ram_mb,
        "disk": flavor.disk_gb,
        "ephemeral": 0,
        "swap": 0,
        "original_name": flavor.name,
    }
    return shown | ({"extra_specs": flavor.extra_specs} if specs else {})


def addresses_of(server: Server) -> dict[str, list[dict[str, Any]]]:
    """Return the addresses by network. Source: Compute API, GET /servers/{id}/ips."""
    return {
        network: [{"version": item["version"], "addr": item["addr"]} for item in shown]
        for network, shown in _addresses(server).items()
    }


def _addresses(server: Server) -> dict[str, list[dict[str, Any]]]:
    networks: dict[str, list[dict[str, Any]]] = {}
    for port in server.ports:
        shown = networks.setdefault(port.network_name, [])
        for address in port.addresses:
            shown.append(
                {
                    "addr": address,
                    "version": ipaddress.ip_address(address).version,
                    "OS-EXT-IPS:type": "fixed",
                    "OS-EXT-IPS-MAC:mac_addr": port.mac_address,
                }
            )
    return networks


def host_id(project_id: str, host: str | None) -> str:
    """Return what tells a project which of its servers share a host. Source: nova/utils.py, generate_hostid."""
    return "" if host is None else hashlib.sha224(f"{project_id}{host}".encode()).hexdigest()


def _fault(server: Server, fault: ServerFault, *, details: bool) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "code": fault.code,
        "message": fault.message,
        "created": timestamp(fault.created_at or server.updated_at),
    }
    text = fault_details(fault) if details or fault.code != 500 else ""
    return shown | ({"details": text} if text else {})
