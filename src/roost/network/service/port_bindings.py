"""The bindings of a port: the active one is in the port's row, others wait on their hosts.

One that waits is activated as a change of `binding:host_id`. The active one becomes inactive then.
Source: Network API, extension binding-extended; Neutron, plugins/ml2/plugin.py.
"""

import msgspec

from roost.network.errors import (
    PortBindingAlreadyExists,
    PortChanged,
    PortNotFound,
    RevisionNumberConstraintFailed,
)
from roost.network.model.ports import (
    VIF_TYPE_BOUND,
    Binding,
    PortChanges,
    PortFilter,
)
from roost.network.rules import requests
from roost.network.rules.revisions import pick
from roost.network.service import Networks, addresses, ports
from roost.network.service.notices import telling
from roost.network.store import ports as port_rows
from roost.network.store import resources


async def list_bindings(networks: Networks, port_id: str) -> list[Binding]:
    """Return the port's bindings, the active one first; its host is "" while the port is unbound.

    Raises PortNotFound, PortNotCompute.
    """
    async with networks.database.transaction(snapshot=True) as tx:
        ports_read = await port_rows.list_ports(tx, PortFilter(ids=(port_id,)))
        return await ports.list_bindings_of(tx, pick(ports_read, PortNotFound, "Port", port_id))


async def get_binding(networks: Networks, port_id: str, host: str) -> Binding:
    """Return the port's binding on the host. Raises PortNotFound, PortNotCompute, PortBindingNotFound."""
    return ports.pick_binding(port_id, host, await list_bindings(networks, port_id))


async def create_binding(networks: Networks, port_id: str, wanted: Binding) -> Binding:
    """Add an inactive binding, which assigns no address.

    Its host must reach the port's addresses; if the port has none, some segment of its network.
    Raises PortNotFound, PortInUse, PortNotCompute, PortBindingAlreadyExists, HostNotConnectedToAnySegment,
    HostNotCompatibleWithFixedIps.
    """
    binding_new = msgspec.structs.replace(wanted, vif_type=VIF_TYPE_BOUND, active=False)
    async with networks.database.transaction() as tx:
        port = await ports.lock_for_client(tx, port_id)
        if any(binding.host == wanted.host for binding in await ports.list_bindings_of(tx, port)):
            raise PortBindingAlreadyExists(f"Binding for port {port_id} on host {wanted.host} already exists.")
        state = await addresses.read_network(tx, port.network_id, wanted.host)
        requests.refuse_host(port, port.addresses, state)
        await port_rows.put_binding(tx, port_id, binding_new)
        await resources.touch(tx, "port", [port_id])
    return binding_new


async def update_binding(
    networks: Networks, port_id: str, host: str, *, vnic_type: str | None, profile: str | None
) -> Binding:
    """Change a binding; None leaves a value as it is.

    Raises PortNotFound, PortInUse, PortNotCompute, PortBindingNotFound.
    """
    async with networks.database.transaction() as tx:
        port = await ports.lock_for_client(tx, port_id)
        binding = ports.pick_binding(port_id, host, await ports.list_bindings_of(tx, port))
        changed = msgspec.structs.replace(
            binding, vnic_type=vnic_type or binding.vnic_type, profile=binding.profile if profile is None else profile
        )
        if binding.active:
            new = msgspec.structs.replace(port, vnic_type=changed.vnic_type, binding_profile=changed.profile)
            async with telling(networks, tx, [port_id]):
                await resources.update(tx, "port", [new])
        else:
            await port_rows.put_binding(tx, port_id, changed)
            await resources.touch(tx, "port", [port_id])
    return changed


async def delete_binding(networks: Networks, port_id: str, host: str) -> None:
    """Delete a binding. Deleting the active one unbinds the port.

    Raises PortNotFound, PortInUse, PortNotCompute, PortBindingNotFound, PortChanged.
    """
    async with networks.database.transaction() as tx:
        port = await ports.lock_for_client(tx, port_id)
        binding = ports.pick_binding(port_id, host, await ports.list_bindings_of(tx, port))
        if not binding.active:
            await port_rows.delete_bindings(tx, [(port_id, host)])
            await resources.touch(tx, "port", [port_id])
            return
    try:
        await ports.change_port(networks, port_id, PortChanges(host="", revision=port.revision))
    except RevisionNumberConstraintFailed as error:  # the caller named none
        raise PortChanged(f"Port {port_id} changed while it was being unbound: repeat the request.") from error


async def activate_binding(networks: Networks, port_id: str, host: str) -> Binding:
    """Make an inactive binding the active one, and the active one inactive.

    An unbound port whose allocation is deferred gets its address.

    Raises PortNotCompute, PortBindingNotFound, PortBindingAlreadyActive, and what ports.update_port raises.
    """
    await ports.change_port(networks, port_id, PortChanges(host=host), activates=True)
    return await get_binding(networks, port_id, host)
