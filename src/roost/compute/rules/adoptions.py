"""Decides whether an unknown guest can become a server's, and what that server is and holds."""

from collections.abc import Sequence

from msgspec.structs import replace

from roost.compute.model.unknown_guests import AdoptedServer, UnknownGuest
from roost.compute.rules.drift import claim_of
from roost.seams.agent import GuestNic, ListedGuest
from roost.seams.compute import RequestSpec
from roost.seams.network import Nic
from roost.seams.placement import ConsumerClaim, ConsumerState, ConsumerType
from roost.seams.unknown_guests import AdoptedNic, Adoption

ADOPTING = "adopting"
"""The kind of the fault of a server whose adoption has begun and not ended."""
ADOPTABLE = ("running", "stopped", "paused", "suspended")


def find_refusal(guest: UnknownGuest, server: AdoptedServer | None) -> str | None:
    """Return why the guest cannot be adopted, whatever the ledger and the network say; a sentence, or None."""
    if guest.destroying:
        return f"host {guest.host} is ordered to destroy it"
    if guest.listed is None:
        return "its agent does not say what it is: adopt it once the agent is of service version 5"
    if guest.listed.state not in ADOPTABLE:
        return f"it is {guest.listed.state}: only guests that are {', '.join(ADOPTABLE)} are adopted"
    if server is None or server.begun:
        return _refuse_unknown(guest.listed)
    if server.deleted or server.working:
        return "its server is being worked on: adopt it when that is done"
    if server.hosts_running:
        return f"its server runs on {' and '.join(server.hosts_running)}: delete the server, or destroy one of the two"
    return None


def spec_of(guest: UnknownGuest) -> RequestSpec:
    """Return the request of a server that would have been built as the guest is."""
    listed = guest.listed
    assert listed is not None
    nics = []
    for tag, nic in enumerate(listed.nics):
        nic_made = Nic(tag=str(tag), network_id=nic.network_id)
        nic_own = Nic(tag=str(tag), port_id=nic.port_id)
        nics.append(nic_made if nic.port_id in (None, nic_made.port_id_of(guest.server_id)) else nic_own)
    return RequestSpec(vcpus=listed.vcpus, memory_mb=listed.ram_mb, disk_gb=listed.disk_gb, nics=tuple(nics))


def adoption_of(
    guest: UnknownGuest, server: AdoptedServer, *, provider_uuid: str, consumer: ConsumerState | None
) -> Adoption:
    """Return what the network service and the ledger are asked for.

    provider_uuid: of the guest's host. consumer: what the server holds; of another host it holds nothing any more.
    """
    listed = guest.listed
    assert listed is not None
    holds = dict(consumer.allocations) if consumer else {}
    if server.provider_uuid not in (None, provider_uuid):
        holds.pop(server.provider_uuid, None)
    claim = ConsumerClaim(
        consumer_uuid=server.id,
        generation=consumer.generation if consumer else None,
        consumer_type=ConsumerType.INSTANCE.value,
        project_id=server.project_id,
        user_id=server.user_id,
        allocations=claim_of(replace(server, provider_uuid=provider_uuid), holds),
    )
    return Adoption(
        server_id=server.id,
        project_id=server.project_id,
        host=guest.host,
        availability_zone=server.spec.availability_zone or "nova",
        nics=tuple(_adopted_nic(server, tag, nic) for tag, nic in enumerate(listed.nics)),
        claim=claim,
    )


def _adopted_nic(server: AdoptedServer, number: int, nic: GuestNic) -> AdoptedNic:
    assert nic.network_id is not None
    derived_id = Nic(tag=str(number), network_id=nic.network_id).port_id_of(server.id)
    return AdoptedNic(
        tag=str(number),
        port_id=nic.port_id or derived_id,
        network_id=nic.network_id,
        mac_address=nic.mac_address,
        addresses=nic.addresses,
        made_by_roost=nic.port_id in (None, derived_id),
    )


def _refuse_unknown(listed: ListedGuest) -> str | None:
    if not listed.name or not listed.project_id or not listed.vcpus or not listed.ram_mb:
        return "its list says no name, project or size"
    return None


def refuse_nics(nics: Sequence[GuestNic]) -> str | None:
    """Return why NICs cannot be a server's; a sentence, or None."""
    if any(nic.network_id is None for nic in nics):
        return "its list does not say which networks its NICs are on"
    return None
