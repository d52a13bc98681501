"""Which unknown guests can become servers', and which servers these are."""

from datetime import UTC, datetime
from typing import Any

import pytest
from msgspec.structs import replace

from roost.compute.model.unknown_guests import AdoptedServer, UnknownGuest
from roost.compute.rules.adoptions import adoption_of, find_refusal, refuse_nics, spec_of
from roost.seams.agent import GuestNic, ListedGuest
from roost.seams.compute import RequestSpec
from roost.seams.network import Nic
from roost.seams.placement import ConsumerState

SERVER = "11111111-1111-1111-1111-111111111111"
NETWORK = "33333333-3333-3333-3333-333333333333"
OWN = "44444444-4444-4444-4444-444444444444"
MADE = Nic(tag="0", network_id=NETWORK).port_id_of(SERVER)


def nic(port_id: str | None = MADE, network_id: str | None = NETWORK) -> GuestNic:
    return GuestNic(mac_address="fa:16:3e:00:00:01", addresses=("10.0.0.2",), port_id=port_id, network_id=network_id)


LISTED = ListedGuest(
    server_id=SERVER, host="h2", attempt=3, state="running", name="web", project_id="p", vcpus=2, ram_mb=512, disk_gb=1,
    nics=(nic(), nic(OWN)),
)  # fmt: skip
GUEST = UnknownGuest(server_id=SERVER, host="h2", attempt=3, listed_at=datetime(2026, 1, 1, tzinfo=UTC), listed=LISTED)
KNOWN = AdoptedServer(
    id=SERVER, name="web", project_id="p", user_id="u", spec=RequestSpec(vcpus=2, memory_mb=512, disk_gb=1), ports=(),
    host="h1", provider_uuid="old",
)  # fmt: skip


@pytest.mark.parametrize(
    ("guest", "server", "said"),
    [
        (GUEST, None, None),
        (GUEST, KNOWN, None),
        (replace(GUEST, destroying=True), None, "host h2 is ordered to destroy it"),
        (replace(GUEST, listed=None), None, "its agent does not say what it is"),
        (replace(GUEST, listed=replace(LISTED, state="absent")), KNOWN, "it is absent"),
        (replace(GUEST, listed=replace(LISTED, project_id="")), None, "no name, project or size"),
        (replace(GUEST, listed=replace(LISTED, project_id="")), replace(KNOWN, begun=True), "no name, project or size"),
        (replace(GUEST, listed=replace(LISTED, project_id="")), KNOWN, None),
        (GUEST, replace(KNOWN, working=True), "its server is being worked on"),
        (GUEST, replace(KNOWN, deleted=True), "its server is being worked on"),
        (GUEST, replace(KNOWN, hosts_running=("h1",)), "its server runs on h1"),
    ],
)
def test_a_guest_is_adopted_where_nothing_else_is_its_server(guest: Any, server: Any, said: str | None) -> None:
    refusal = find_refusal(guest, server)
    assert refusal is None if said is None else said in (refusal or "")


def test_a_server_of_an_unknown_id_asks_for_what_the_list_says() -> None:
    spec = spec_of(GUEST)
    assert (spec.vcpus, spec.memory_mb, spec.disk_gb) == (2, 512, 1)
    assert spec.nics == (Nic(tag="0", network_id=NETWORK), Nic(tag="1", port_id=OWN))
    assert refuse_nics(LISTED.nics) is None
    assert refuse_nics([nic(network_id=None)]) == "its list does not say which networks its NICs are on"


@pytest.mark.parametrize(
    "holds", [{}, {"old": {"VCPU": 2, "MEMORY_MB": 512, "DISK_GB": 1}, "pool": {"IPV4_ADDRESS": 1}}]
)
def test_it_claims_its_size_on_the_guests_host_and_nothing_on_another(holds: dict[str, dict[str, int]]) -> None:
    consumer = ConsumerState(
        consumer_uuid=SERVER, generation=4, consumer_type="INSTANCE", project_id="p", user_id="u", allocations=holds
    )
    asked = adoption_of(GUEST, KNOWN, provider_uuid="new", consumer=consumer if holds else None)
    pools = {uuid: amounts for uuid, amounts in holds.items() if uuid == "pool"}
    assert asked.claim.allocations == {"new": {"VCPU": 2, "MEMORY_MB": 512, "DISK_GB": 1}, **pools}
    assert asked.claim.generation == (4 if holds else None)
    assert [(item.port_id, item.made_by_roost) for item in asked.nics] == [(MADE, True), (OWN, False)]
