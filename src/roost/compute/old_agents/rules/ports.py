"""Decides which ports an agent may delete with a server: what is kept of ports is a copy, which may be wrong."""

from collections.abc import Sequence

from roost.seams.compute import ServerPort
from roost.seams.network import Nic


def ports_to_give_back(server_id: str, ports: Sequence[ServerPort], nics: Sequence[Nic]) -> tuple[ServerPort, ...]:
    """Return the ports of a server that is being deleted without those that might be a user's.

    nics: the server's. An old agent deletes each port that is not to be preserved. Roost's are only those that the id
    says were made for a NIC; the conductor gives back the others.
    """
    ids_made = {nic.port_id_of(server_id) for nic in nics if nic.port_id is None}
    return tuple(port for port in ports if port.preserve_on_delete or port.port_id in ids_made)
