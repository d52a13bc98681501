"""Which ports a server's build may have, and what binding and release change of a port."""

from typing import Any

import pytest
from msgspec.structs import replace
from tests.network.cloud import NEVER, PROJECT
from tests.network.parts import SLAAC, a_network, a_port, a_provider, a_subnet, an_address

from roost.network.model.networks import Host, Provider
from roost.network.model.ports import Parting, Port, PortOrigin, is_of_server
from roost.network.rules import port_bindings
from roost.network.rules.port_bindings import Assignment, Reservation, list_addresses_since
from roost.platform.quotas import QuotaUsage
from roost.seams.network import LOST_PORT, BindRefused, Bound, Nic, PortBind, PortsRefused, ServerNics

SERVER = "11111111-1111-4111-8111-111111111111"
OLD, NEW = "10.1.0.2", "10.2.0.2"
USERS = a_port()
MADE = a_port(device_id=SERVER, device_owner="compute:nova", made_for=SERVER, ip_allocation="deferred")
LENT = a_port(an_address(OLD), device_id=SERVER, device_owner="compute:nova", reserved_from=PortOrigin())


@pytest.mark.parametrize(
    ("owner", "expected"),
    [("compute:nova", True), ("compute:", True), ("", False), ("computer", False), ("network:dhcp", False)],
)
def test_a_servers_port_is_told_by_its_owner(owner: str, expected: bool) -> None:
    assert is_of_server(owner) is expected


PORT_NIC, NETWORK_NIC = Nic(tag="0", port_id="p"), Nic(tag="0", network_id="n")
MADE_ID = NETWORK_NIC.port_id_of(SERVER)


@pytest.mark.parametrize(
    ("nics", "port", "more", "answer"),
    [
        ([NETWORK_NIC], None, {}, ([MADE_ID], [MADE_ID], [])),
        ([NETWORK_NIC], None, {"make": False}, ([MADE_ID], [], [])),
        ([NETWORK_NIC], replace(MADE, id=MADE_ID), {}, ([MADE_ID], [], [])),
        ([PORT_NIC], a_port(an_address(OLD)), {}, (["p"], [], ["p"])),
        ([PORT_NIC], a_port(an_address(OLD)), {"make": False}, (["p"], [], [])),
        ([PORT_NIC], a_port(ip_allocation="deferred"), {}, (["p"], [], ["p"])),
        ([PORT_NIC], LENT, {}, (["p"], [], [])),
        ([], None, {}, ([], [], [])),
        ([PORT_NIC], None, {}, "Port p could not be found."),
        ([PORT_NIC], a_port(project_id="another"), {}, "Port p could not be found."),
        ([PORT_NIC], a_port(nic_tag="0"), {}, "Port p could not be found."),
        ([PORT_NIC], a_port(device_id="router"), {}, "Port p is still in use."),
        ([PORT_NIC], replace(LENT, reserved_from=None), {}, "Port p is still in use."),
        ([PORT_NIC], USERS, {}, "Port p requires a FixedIP in order to be used."),
        ([PORT_NIC], a_port(an_address(OLD)), {"claiming": {"p"}},
         "Port p is being given an address: repeat the request."),
        ([PORT_NIC, replace(PORT_NIC, tag="1")], a_port(an_address(OLD)), {}, "Port p is named twice."),
        ([NETWORK_NIC], replace(USERS, id=MADE_ID), {}, f"Port {MADE_ID} exists and was not made for this server."),
        ([Nic(tag="0", network_id="gone")], None, {}, "Network gone could not be found."),
        ([Nic(tag="0", network_id="bare")], None, {}, "Network bare has no subnet: create one, or name a port."),
        ([PORT_NIC], LENT, {"refused": {SERVER: LOST_PORT.format("q")}}, LOST_PORT.format("q")),
    ],
)  # fmt: skip
def test_a_server_has_all_its_ports_or_a_reason(
    nics: list[Nic], port: Port | None, more: dict[str, Any], answer: tuple[list[str], list[str], list[str]] | str
) -> None:
    networks = {"n": a_network(subnet_ids=("s",)), "bare": a_network("bare")}
    server = ServerNics(server_id=SERVER, project_id=PROJECT, nics=tuple(nics))
    (decided,) = port_bindings.decide_reservations(
        [server], networks, {port.id: port} if port else {}, now=NEVER, **more
    )
    if isinstance(decided, PortsRefused):
        assert decided.reason == answer
        return
    ids, new, reserved = (
        list(decided.port_ids),
        [item.id for item in decided.new],
        [r.id for r in decided.reserved],
    )
    assert (ids, new, reserved) == answer


def test_the_first_server_that_wants_a_port_gets_it() -> None:
    servers = [ServerNics(server_id=SERVER[:-1] + last, project_id=PROJECT, nics=(PORT_NIC,)) for last in "12"]
    first, second = port_bindings.decide_reservations(servers, {}, {"p": a_port(an_address(OLD))}, now=NEVER)
    assert isinstance(first, Reservation)
    assert [item.reserved_from for item in first.reserved] == [PortOrigin()]
    assert second == PortsRefused(servers[1].server_id, "Port p is still in use.")


def test_the_first_servers_get_what_their_projects_quota_has() -> None:
    networks = {"n": a_network(subnet_ids=("s",))}
    counts = (2, 2, 1)
    servers = [
        ServerNics(
            server_id=SERVER[:-1] + str(number), project_id=PROJECT,
            nics=tuple(Nic(tag=str(tag), network_id="n") for tag in range(count)),
        )
        for number, count in enumerate(counts)
    ]  # fmt: skip
    decided = port_bindings.decide_reservations(servers, networks, {}, now=NEVER)
    assert port_bindings.refuse_over_quota(decided, {}) == decided
    answers = port_bindings.refuse_over_quota(decided, {PROJECT: QuotaUsage(PROJECT, "port", 10, 7)})
    assert [answer == before for answer, before in zip(answers, decided, strict=True)] == [True, False, True]
    assert isinstance(answers[1], PortsRefused)
    assert "has 9 of at most 10, and 2 more were asked for" in answers[1].reason


@pytest.mark.parametrize(
    ("port", "expected"),
    [
        (MADE, {"needs_address": True, "pinned": False, "preserve_on_delete": False, "is_held": True}),
        (LENT, {"needs_address": False, "pinned": True, "preserve_on_delete": True, "is_held": True,
                "addresses": (OLD,), "provider_uuid": "n"}),
        (a_port(an_address(OLD, assigned_for=SERVER)), {"needs_address": False, "pinned": False, "is_held": False}),
        (a_port(an_address(OLD, assigned_for=SERVER), an_address(NEW)), {"pinned": True}),
        (a_port(ip_allocation="none"), {"needs_address": False, "pinned": False}),
    ],
    ids=["made", "the user's", "assigned by this build", "with another", "to have none"],
)  # fmt: skip
def test_a_port_as_the_conductor_needs_to_know_it(port: Port, expected: dict[str, Any]) -> None:
    view = port_bindings.view(port, Nic(tag="7", port_id="p"), SERVER)
    assert (view.id, view.tag, view.network_id, view.revision) == ("p", "7", "n", 1)
    assert {name: getattr(view, name) for name in expected} == expected


@pytest.mark.parametrize(
    ("provider_uuid", "port", "expected"),
    [
        (None, a_port(ip_allocation="deferred"), True),
        (None, USERS, True),
        (None, a_port(ip_allocation="none"), False),
        (None, a_port(an_address(OLD)), False),
        ("n", a_port(ip_allocation="deferred"), False),
    ],
)
def test_only_a_port_that_claims_nothing_and_has_nothing_needs_eui64_addresses(
    provider_uuid: str | None, port: Port, expected: bool
) -> None:
    assert port_bindings.needs_automatic(bind(provider_uuid), port) is expected


def bind(provider_uuid: str | None, **fields: Any) -> PortBind:
    plain = {"port_id": "p", "server_id": SERVER, "host": "h1", "revision": 1, **fields}
    return PortBind(provider_uuid=provider_uuid, **plain)


FOUR, AUTO = a_subnet("four", "10.1.0.0/29"), a_subnet("auto", "2001:db8::/64", **SLAAC)
PROVIDERS = {
    "g1": a_provider("g1", "rack1", FOUR, AUTO),
    "g2": a_provider("g2", "rack2", FOUR),
    "pool": a_provider("pool", None, FOUR, cell="cell2"),
}
ONLY_AUTO = {"a": a_provider("a", "rack1", AUTO), **PROVIDERS}
HAS = replace(MADE, addresses=(an_address(OLD, provider_uuid="g1"),))
THERE = replace(HAS, host="h1")


@pytest.mark.parametrize(
    ("wanted", "port", "providers", "answer"),
    [
        (bind("g1"), MADE, PROVIDERS, ("g1", [("four",)], 1)),
        (bind("g1", claimed=()), MADE, PROVIDERS, ("g1", [], 1)),
        (bind("g1"), HAS, PROVIDERS, None),
        (bind(None), HAS, PROVIDERS, None),
        (bind(None), replace(MADE, ip_allocation="none"), PROVIDERS, None),
        (bind(None, claimed=()), MADE, PROVIDERS, ("g1", [], 1)),
        (bind(None, claimed=()), MADE, ONLY_AUTO, ("a", [], 1)),
        (bind("g1"), THERE, PROVIDERS, Bound("p", (OLD,), 1)),
        (bind("g1"), replace(MADE, host="h1"), PROVIDERS, ("g1", [("four",)], 1)),
        (bind(None), replace(MADE, host="h1", ip_allocation="none"), PROVIDERS, Bound("p", (), 1)),
        (bind(None, revision=7), THERE, PROVIDERS, Bound("p", (OLD,), 1)),
        (bind("g1"), None, PROVIDERS, "Port p is gone."),
        (bind("g1"), replace(MADE, device_id="other"), PROVIDERS, f"Port p does not belong to server {SERVER}."),
        (bind("g1", revision=2), MADE, PROVIDERS, "Port p changed meanwhile: revision 1, not 2."),
        (bind("g2"), HAS, PROVIDERS, "Port p has an address on g1 already, not on g2."),
        (bind(None), MADE, PROVIDERS, "Port p has lost the address that it had."),
        (bind(None, claimed=()), MADE, {"g2": PROVIDERS["g2"]},
         "Host h1 reaches no segment of network n where addresses need no claim."),
        (bind("g3"), MADE, PROVIDERS, "There is no segment, network or pool g3."),
        (bind("g2"), MADE, PROVIDERS, "Host h1 does not reach physical network rack2."),
        (bind("pool"), MADE, PROVIDERS, "Pool pool belongs to cell cell2, and host h1 to another."),
        (bind(None), replace(HAS, addresses=(an_address(OLD, provider_uuid="g2"),)), PROVIDERS,
         "Host h1 does not reach physical network rack2."),
    ],
)  # fmt: skip
def test_what_a_bind_changes(wanted: PortBind, port: Port | None, providers: dict[str, Provider], answer: Any) -> None:
    decided = port_bindings.decide_bind(wanted, port, Host("h1", frozenset({"rack1"})), providers)
    if isinstance(decided, BindRefused):
        assert decided.reason == answer
        assert decided.changed is ("changed meanwhile" in decided.reason or "has lost" in decided.reason)
    elif isinstance(decided, Assignment):
        demanded = [demand.subnet_ids for demand in decided.demands]
        assert (decided.provider_uuid, demanded, len(decided.automatic)) == answer
    else:
        assert decided == answer


ORIGIN = PortOrigin(device_owner="compute:east", host="h9", vif_type="ovs")
ASSIGNED = an_address(NEW, assigned_for=SERVER)


@pytest.mark.parametrize(
    ("port", "restore", "parting"),
    [
        (replace(MADE, addresses=(an_address(OLD),)), False, Parting("p", None, (an_address(OLD),), True)),
        (MADE, True, Parting("p", None, (), True)),
        (replace(LENT, reserved_from=ORIGIN), True, Parting("p", ORIGIN, (), False)),
        (replace(LENT, reserved_from=ORIGIN), False, Parting("p", PortOrigin(), (), False)),
        (replace(LENT, addresses=(ASSIGNED,)), True, Parting("p", PortOrigin(), (ASSIGNED,), True)),
        (replace(LENT, addresses=(ASSIGNED,)), False, Parting("p", PortOrigin(), (), False)),
        (replace(LENT, addresses=(ASSIGNED,), reserved_from=None), True, Parting("p", PortOrigin(), (), False)),
        (replace(LENT, addresses=()), False, Parting("p", PortOrigin(), (), True)),
    ],
    ids=["made by Roost", "made, without address", "goes back as it came", "stays the user's", "loses what the build "
         "assigned", "keeps it after the build", "is not reserved", "may have a claim"],
)  # fmt: skip
def test_what_becomes_of_a_port_whose_server_goes(port: Port, restore: bool, parting: Parting) -> None:
    assert port_bindings.decide_parting(port, restore=restore) == parting


@pytest.mark.parametrize(
    ("addresses", "before", "since"),
    [
        ((OLD,), (OLD,), []),
        ((NEW,), (OLD,), [NEW]),
        ((OLD, NEW), (OLD,), [NEW]),
        ((NEW,), (), [NEW]),
        ((), (OLD,), []),
        ((OLD,), None, []),
    ],
    ids=["as it was", "exchanged", "one more", "had none", "lost it", "nobody noted it"],
)
def test_only_an_address_that_the_port_did_not_have_before_is_given_back(
    addresses: tuple[str, ...], before: tuple[str, ...] | None, since: list[str]
) -> None:
    assert [item.address for item in list_addresses_since(a_port(*map(an_address, addresses)), before)] == since
