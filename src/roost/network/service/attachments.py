"""Attaches ports to a running server and detaches them: all that binding a port does, in one call.

A port that changes after it is read, as when a move binds it, is read again.
"""

from contextlib import suppress

from roost.network.errors import InvalidInput, PortChanged, PortInUse, PortNotFound, RevisionNumberConstraintFailed
from roost.network.model.ports import FixedIpRequest, PortChanges, PortRequest
from roost.network.service import Networks, ports
from roost.seams import network as seam
from roost.seams.service_types import COMPUTE_OWNER

LOOKS_MAX = 5


async def attach_port(networks: Networks, wanted: seam.PortAttachment) -> str:
    """See PortClient.attach_port."""
    owner = f"{COMPUTE_OWNER}{wanted.availability_zone}"
    if wanted.port_id is None:
        assert wanted.network_id is not None
        fixed_ips = None if wanted.fixed_ip is None else (FixedIpRequest(ip_address=wanted.fixed_ip),)
        request = PortRequest(
            network_id=wanted.network_id,
            project_id=wanted.project_id,
            device_id=wanted.server_id,
            device_owner=owner,
            host=wanted.host,
            fixed_ips=fixed_ips,
            made_for=wanted.server_id,
        )
        return (await ports.create_port(networks, request)).id
    for _ in range(LOOKS_MAX):
        with suppress(RevisionNumberConstraintFailed):
            return await _attach_once(networks, wanted, wanted.port_id, owner)
    raise PortChanged(f"Port {wanted.port_id} changes while it is being attached: repeat the request.")


async def _attach_once(networks: Networks, wanted: seam.PortAttachment, port_id: str, owner: str) -> str:
    port = await ports.get_port(networks, port_id)
    if port.hidden or port.project_id != wanted.project_id:
        raise PortNotFound(f"Port {port_id} could not be found.")
    if port.device_id:
        raise PortInUse(f"Port {port.id} is still in use.")
    if wanted.fixed_ip is not None:
        raise InvalidInput(f"Port {port.id} has addresses of its own: leave fixed_ips out.")
    changes = PortChanges(device_id=wanted.server_id, device_owner=owner, host=wanted.host, revision=port.revision)
    await ports.update_port(networks, port.id, changes)
    return port.id


async def detach_port(networks: Networks, server_id: str, port_id: str) -> None:
    """See PortClient.detach_port."""
    for _ in range(LOOKS_MAX):
        with suppress(RevisionNumberConstraintFailed):
            return await _detach_once(networks, server_id, port_id)
    raise PortChanged(f"Port {port_id} changes while it is being detached: repeat the request.")


async def _detach_once(networks: Networks, server_id: str, port_id: str) -> None:
    port = await ports.get_port(networks, port_id)
    if port.hidden or port.device_id != server_id:
        raise PortNotFound(f"Port {port_id} is not attached to server {server_id}.")
    if port.made_for is not None:
        await ports.delete_port(networks, port_id, revision=port.revision)
    else:
        changes = PortChanges(device_id="", device_owner="", host="", revision=port.revision)
        await ports.update_port(networks, port_id, changes)
