"""An unknown guest becomes a server's, as a person decided: the attempt of a known one, or a new one of what is listed.

A new server is made first, in ERROR on its host, so that no audit gives back what it holds. Then its ports and claims
are made, in one claim group. Last the guest is its own. Each step can be repeated, and a refusal undoes them.
"""

import structlog

from roost.compute.errors import GuestNotAdopted, GuestNotFound
from roost.compute.model.server import Requester
from roost.compute.model.unknown_guests import AdoptedServer, NewAdoption, UnknownGuest
from roost.compute.model.work import EARLY, Failure
from roost.compute.rules import adoptions as rules
from roost.compute.rules.drift import network_information, own_ports
from roost.compute.rules.servers import make_hostname
from roost.compute.service import action_log
from roost.compute.service.context import Compute
from roost.compute.store import adoptions as store
from roost.compute.store import flavors as flavor_rows
from roost.compute.store import guests as guest_rows
from roost.compute.store import hosts as host_rows
from roost.compute.store import servers as server_rows
from roost.compute.store import unknown_guests as unknown_rows
from roost.platform.crash import crash_point

ADOPT, ADOPT_EVENT = "adopt_guest", "compute_adopt_guest"
BEGUN = "its guest is being adopted: repeat roost-manage guests adopt"

log = structlog.get_logger()


async def adopt_guest(compute: Compute, server_id: str, host: str) -> None:
    """Make the unknown guest on the host its server's. Raises GuestNotFound, GuestNotAdopted, and changes nothing then.

    Not one transaction: the ledger and the network service are asked in between.
    """
    async with compute.database.connection() as connection:
        guests = await unknown_rows.list_unknown_guests(connection, [host])
        guest = next((guest for guest in guests if guest.server_id == server_id), None)
        if guest is None or guest.listed is None:
            raise GuestNotFound(f"host {host} lists no unknown guest of server {server_id} and says what it is")
        server = await store.find_server(connection, server_id, host, adopting=rules.ADOPTING)
        places = await host_rows.list_hosts(connection, after="", limit=None, names=[host])
    reason = rules.find_refusal(guest, server) or rules.refuse_nics(guest.listed.nics)
    if reason is None and not places:
        reason = f"there is no host {host}"
    if reason is not None:
        raise GuestNotAdopted(_sentence(guest, reason))
    if server is None or server.begun:
        server = await _make_server(compute, guest)
    crash_point("adopt.after-server")
    consumers = await compute.placement.get_consumers([server_id])
    adoption = rules.adoption_of(
        guest, server, provider_uuid=places[0].provider_uuid, consumer=consumers.get(server_id)
    )
    reason = await compute.network.adopt_ports(adoption)
    if reason is not None:
        async with compute.database.transaction() as tx:
            await store.delete_server(tx, server_id, adopting=rules.ADOPTING)
        raise GuestNotAdopted(_sentence(guest, reason))
    await _finish(compute, guest, server)
    log.info("adopted an unknown guest", server=server_id, host=host, attempt=guest.attempt)


async def _make_server(compute: Compute, guest: UnknownGuest) -> AdoptedServer:
    """Make the server that the guest is of, in ERROR. Raises GuestNotAdopted where no flavor is of its size."""
    listed = guest.listed
    assert listed is not None
    async with compute.database.transaction() as tx:
        flavor = await flavor_rows.find_flavor_of_size(
            tx, vcpus=listed.vcpus, ram_mb=listed.ram_mb, disk_gb=listed.disk_gb
        )
        if flavor is None:
            size = f"{listed.vcpus} VCPUs, {listed.ram_mb} MB and {listed.disk_gb} GB"
            raise GuestNotAdopted(_sentence(guest, f"no flavor is of exactly its size, {size}: create one"))
        new = NewAdoption(
            id=guest.server_id,
            name=listed.name,
            hostname=make_hostname(listed.name, guest.server_id),
            project_id=listed.project_id,
            user_id=compute.default_user,
            flavor=flavor,
            spec=rules.spec_of(guest),
            host=guest.host,
            order=EARLY,
        )
        await store.insert_server(tx, new, Failure(message=BEGUN, host=guest.host, kind=rules.ADOPTING))
        server = await store.find_server(tx, guest.server_id, guest.host, adopting=rules.ADOPTING)
    assert server is not None
    return server


async def _finish(compute: Compute, guest: UnknownGuest, server: AdoptedServer) -> None:
    attached = (await compute.network.list_attached_ports([server.id])).get(server.id, ())
    ports = network_information(server, own_ports(server.project_id, attached))
    assert guest.listed is not None
    assert guest.listed.state is not None
    by = Requester(
        request_id=f"req-{compute.env.new_uuid()}", project_id=compute.default_project, user_id=compute.default_user
    )
    async with compute.database.transaction() as tx:
        works = await guest_rows.lock_works(tx, [server.id])  # R29
        listed = await store.take_guest(tx, server.id, guest.host, attempt=guest.attempt, state=guest.listed.state)
        await server_rows.lock_server(tx, server.id)
        now = await store.find_server(tx, server.id, guest.host, adopting=rules.ADOPTING)
        if not listed:
            raise GuestNotAdopted(_sentence(guest, "its host does not list it any more: repeat it if it does again"))
        if works or now is None or now.working or now.deleted:
            raise GuestNotAdopted(_sentence(guest, "its server was changed meanwhile: repeat it"))
        await store.activate_server(tx, server.id, guest.host, state=guest.listed.state, ports=ports)
        await action_log.begin(compute, tx, server.id, ADOPT, by, event=ADOPT_EVENT, host=guest.host, finished=True)


def _sentence(guest: UnknownGuest, reason: str) -> str:
    return f"the guest of server {guest.server_id} on host {guest.host} is not adopted: {reason}"
