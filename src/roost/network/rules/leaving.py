"""Decides what a server's guest may still have of a port that its server has lost, and who has to wait for that."""

from collections.abc import Iterable, Mapping, Sequence

from roost.network.model.ports import Address, Port
from roost.network.model.unknown_guests import LeftNic
from roost.network.rules.port_bindings import is_of_server, is_server_id


def list_leaving(port: Port, changed: Port | None, dropped: Sequence[Address]) -> Sequence[Address]:
    """Return the addresses that the guest of a port's server may still have after a change of the port.

    changed: the port afterwards, None if it is deleted. dropped: addresses that it loses. A port on no host has no
    guest.
    """
    if port.host is None or not is_of_server(port.device_owner) or not is_server_id(port.device_id):
        return ()
    return port.addresses if changed is None or changed.device_id != port.device_id else dropped


def find_plugged(left: Iterable[LeftNic], servers_by_port: Mapping[str, str]) -> dict[str, str]:
    """Return port id -> why it cannot be the server's yet: another server's guest may still have its NIC.

    left: guests that may have addresses of these ports.
    """
    return {
        nic.port_id: f"Port {nic.port_id} is still in use: server {nic.server_id} has let it go, and host {nic.host} "
        "has not said yet that its guest has."
        for nic in left
        if servers_by_port.get(nic.port_id, nic.server_id) != nic.server_id
    }
