"""Where a server, its ports and its host do not say the same: what is drift, and in which words."""

from collections.abc import Mapping
from datetime import UTC, datetime

import pytest
from msgspec.structs import replace

from roost.compute.model.agents import AgentClash
from roost.compute.model.cloud import Host
from roost.compute.model.server import QuietServer
from roost.compute.model.work import EARLY, BuildOrder
from roost.compute.old_agents.rules.orders import EARLY_CREATE, LATE
from roost.compute.old_agents.rules.orders import FLAT as FLAT_ORDER
from roost.compute.rules.drift import (
    AGENT_TWICE,
    HOST_WRONG,
    MIRROR_WRONG,
    PORT_ELSEWHERE,
    SERVER_PORTS_WRONG,
    judge_clash,
    judge_host,
    judge_mirror,
    judge_ports,
    network_information,
    own_ports,
)
from roost.seams.compute import RequestSpec, ServerPort
from roost.seams.network import AttachedPort, HostReach, Nic
from roost.seams.placement import DISABLED, Inventory, ProviderState

SERVER = QuietServer(
    id="s", name="web", project_id="mine", user_id="u", host="h1", provider_uuid="p1",
    spec=RequestSpec(vcpus=1, memory_mb=1, disk_gb=0), ports=(),
)  # fmt: skip
PORT = AttachedPort(
    id="port0", tag="0", project_id="mine", network_id="n", network_name="net", mac_address="fa:00", host="h1",
    addresses=("10.0.0.2",), preserve_on_delete=False, revision=1,
)  # fmt: skip
FLAT = replace(PORT, id=None, tag="1", project_id=None, mac_address="fa:01", addresses=("10.1.0.2",))
KEPT = ServerPort(
    port_id="port0", tag="0", network_id="n", network_name="net", mac_address="fa:00", addresses=("10.0.0.2",),
    preserve_on_delete=False, created_by="roost", revision=1,
)  # fmt: skip
KEPT_FLAT = replace(KEPT, port_id=None, tag="1", mac_address="fa:01", addresses=("10.1.0.2",))


@pytest.mark.parametrize(
    ("project_id", "own"),
    [("mine", True), ("anothers", False), ("", False), (None, True)],
    ids=["its own project's", "another project's", "nobody's", "the server's own address on a flat network"],
)
def test_a_port_of_another_project_is_none_of_the_servers(project_id: str | None, own: bool) -> None:
    port = replace(PORT, project_id=project_id)
    assert own_ports("mine", (port, FLAT)) == ((port, FLAT) if own else (FLAT,))


@pytest.mark.parametrize(
    ("kept", "ports", "now"),
    [
        pytest.param((), (), (), id="no NIC"),
        pytest.param((KEPT, KEPT_FLAT), (PORT, FLAT), (KEPT, KEPT_FLAT), id="as it was"),
        pytest.param((KEPT, KEPT_FLAT), (FLAT, PORT), (KEPT, KEPT_FLAT), id="in the order that is kept"),
        pytest.param((KEPT, KEPT_FLAT), (FLAT,), (KEPT_FLAT,), id="a port went"),
        pytest.param((), (FLAT, PORT), (KEPT_FLAT, KEPT), id="what is new is in the order of its names"),
        pytest.param((KEPT_FLAT,), (PORT, FLAT), (KEPT_FLAT, KEPT), id="what is new comes last"),
        pytest.param((replace(KEPT, tag="eth0"),), (PORT,), (replace(KEPT, tag="eth0"),), id="its tag is kept"),
        pytest.param((KEPT,), (replace(PORT, network_name="other", mac_address="fa:02", preserve_on_delete=True),),
                     (replace(KEPT, network_name="other", mac_address="fa:02", preserve_on_delete=True,
                                 created_by="user"),),
                     id="all else is as the port is"),
        pytest.param((KEPT,), (replace(PORT, addresses=("2001:db8::2", "10.0.0.10", "10.0.0.9")),),
                     (replace(KEPT, addresses=("10.0.0.9", "10.0.0.10", "2001:db8::2")),),
                     id="addresses are in the order of their numbers"),
    ],
)  # fmt: skip
def test_network_information_is_what_the_ports_are(
    kept: tuple[ServerPort, ...], ports: tuple[AttachedPort, ...], now: tuple[ServerPort, ...]
) -> None:
    assert network_information(replace(SERVER, ports=kept), ports) == now
    assert network_information(replace(SERVER, ports=now), ports) == now, "twice is once"


SERVER_ID = "5b5c0e4e-2fa1-4a57-9d53-0016d3cca427"
NICS = (Nic(tag="a", network_id="flat"), Nic(tag="b", port_id="mine"), Nic(tag="c", network_id="n"))
MADE_ID = NICS[2].port_id_of(SERVER_ID)


@pytest.mark.parametrize(
    ("order", "maker"),
    [
        (None, "conductor"),
        (EARLY, "conductor"),
        (EARLY_CREATE, "conductor"),
        (LATE, "agent"),
        (FLAT_ORDER, "conductor"),
    ],
)
@pytest.mark.parametrize("said", ["", "user", "agent", "conductor", "roost"])
def test_who_made_a_port_follows_from_the_port_and_the_servers_order(
    order: BuildOrder | None, maker: str, said: str
) -> None:
    spec = RequestSpec(vcpus=1, memory_mb=1, disk_gb=0, nics=NICS)
    server = replace(SERVER, id=SERVER_ID, spec=spec, order=order)
    ports = (
        replace(PORT, id="later", tag=""),
        replace(PORT, id=MADE_ID, tag=""),
        replace(PORT, id="mine", tag="", preserve_on_delete=True),
        replace(FLAT, tag="a"),
    )
    rebuilt = network_information(server, ports)
    assert [(port.port_id, port.tag, port.created_by) for port in rebuilt] == [
        (None, "a", maker),
        ("mine", "b", "user"),
        (MADE_ID, "c", maker),
        ("later", "", "roost"),
    ]
    wrong = tuple(replace(port, created_by=said) for port in rebuilt)
    assert network_information(replace(server, ports=wrong), ports) == rebuilt


@pytest.mark.parametrize(
    ("kept", "ports", "says"),
    [
        pytest.param((KEPT, KEPT_FLAT), (FLAT, PORT), None, id="the same in another order"),
        pytest.param((KEPT,), (replace(PORT, network_name="renamed"),), None, id="the network was renamed"),
        pytest.param((KEPT,), (), "has port0 (10.0.0.2, fa:00), its ports are none", id="a port went"),
        pytest.param((), (FLAT,), "has none, its ports are NIC 1 (10.1.0.2, fa:01)", id="a NIC that is not kept"),
        pytest.param((KEPT,), (replace(PORT, addresses=("10.0.0.3",)),),
                     "has port0 (10.0.0.2, fa:00), its ports are port0 (10.0.0.3, fa:00)", id="another address"),
        pytest.param((KEPT,), (replace(PORT, mac_address="fa:09"),),
                     "has port0 (10.0.0.2, fa:00), its ports are port0 (10.0.0.2, fa:09)", id="another MAC address"),
        pytest.param((KEPT,), (replace(PORT, preserve_on_delete=True),),
                     "has port0 (10.0.0.2, fa:00), its ports are port0 (10.0.0.2, fa:00, kept on delete)",
                     id="it is kept on delete"),
    ],
)  # fmt: skip
def test_what_is_kept_with_a_server_is_its_ports(
    kept: tuple[ServerPort, ...], ports: tuple[AttachedPort, ...], says: str | None
) -> None:
    drifts = judge_ports(replace(SERVER, ports=kept), ports)
    assert [(one.kind, one.key, one.name, one.says) for one in drifts] == (
        [] if says is None else [(SERVER_PORTS_WRONG, "s", "web", says)]
    )


@pytest.mark.parametrize(
    ("host", "says"),
    [("h1", None), ("h2", "bound to h2, its server s is on h1"), (None, "bound to no host, its server s is on h1")],
)
def test_a_port_is_bound_where_its_server_is(host: str | None, says: str | None) -> None:
    drifts = judge_ports(replace(SERVER, ports=(KEPT,)), (replace(PORT, host=host),))
    assert [(one.kind, one.key, one.name, one.says) for one in drifts] == (
        [] if says is None else [(PORT_ELSEWHERE, "port0", "web", says)]
    )
    flat = judge_ports(replace(SERVER, ports=(KEPT_FLAT,)), (replace(FLAT, host=host),))
    assert flat == [], "an address without a port is bound nowhere"


HOST = Host(
    id=1, name="h1", provider_uuid="p1", vcpus=8, ram_mb=64, disk_gb=9, physical_networks=("rack1",), cell="cell1",
    declared=True, disabled=False, disabled_reason=None, forced_down=False, service_version=3, seen_at=None,
)  # fmt: skip
SIZES = {"VCPU": Inventory(8, max_unit=8), "MEMORY_MB": Inventory(64, max_unit=64)}
WANTED = ProviderState(
    uuid="p1", name="h1", inventories=SIZES, traits=frozenset(), managed_traits=frozenset({DISABLED})
)
REACH = HostReach(frozenset({"rack1"}), "cell1")


@pytest.mark.parametrize(
    ("found", "told", "says"),
    [
        pytest.param({}, REACH, None, id="all is well"),
        pytest.param(None, REACH, "its provider is missing", id="no provider"),
        pytest.param({"name": "h2"}, REACH, "the name of its provider is h2", id="another name"),
        pytest.param({"inventories": None}, REACH,
                     "its provider has no inventory, should have 64 MEMORY_MB (1 to 64 by 1), 8 VCPU (1 to 8 by 1)",
                     id="no inventory"),
        pytest.param({"inventories": {**SIZES, "VCPU": Inventory(4, 0, 2, 4, 2)}}, REACH,
                     "its provider has 64 MEMORY_MB (1 to 64 by 1), 4 VCPU (2 to 4 by 2), "
                     "should have 64 MEMORY_MB (1 to 64 by 1), 8 VCPU (1 to 8 by 1)", id="another size"),
        pytest.param({"inventories": {**SIZES, "VCPU": Inventory(8, reserved=2, max_unit=8, allocation_ratio=4.0)}},
                     REACH, None, id="what is reserved, and the ratio, are an operator's"),
        pytest.param({"inventories": {**SIZES, "CUSTOM_GPU": Inventory(2)}}, REACH, None,
                     id="other inventories are an operator's"),
        pytest.param({"traits": frozenset({"CUSTOM_FAST"})}, REACH, None, id="other traits are an operator's"),
        pytest.param({"traits": None}, REACH, None, id="no trait"),
        pytest.param({"traits": frozenset({DISABLED})}, REACH, f"has the traits {DISABLED}", id="closed"),
        pytest.param({}, None, "the network service does not know it", id="the network service was not told"),
        pytest.param({}, HostReach(frozenset({"rack2", "rack1"}), "cell1"),
                     "the network service has it in cell cell1 on rack1, rack2, it is in cell cell1 on rack1",
                     id="another reach"),
        pytest.param({}, HostReach(frozenset(), "cell2"),
                     "the network service has it in cell cell2 on no physical network, it is in cell cell1 on rack1",
                     id="another cell"),
        pytest.param(None, None, "its provider is missing; the network service does not know it", id="nobody knows it"),
    ],
)  # fmt: skip
def test_a_host_is_to_others_what_it_was_reported_to_be(
    found: Mapping[str, object] | None, told: HostReach | None, says: str | None
) -> None:
    provider = None if found is None else replace(WANTED, **found)
    drift = judge_host(HOST, WANTED, provider, told)
    assert (drift and (drift.kind, drift.key, drift.says)) == (says and (HOST_WRONG, "h1", says))


def test_a_disabled_host_has_the_trait_that_says_so() -> None:
    closed = replace(WANTED, traits=frozenset({DISABLED}))
    assert judge_host(HOST, closed, closed, REACH) is None
    drift = judge_host(HOST, closed, WANTED, REACH)
    assert drift is not None
    assert drift.says == f"lacks the traits {DISABLED}"


@pytest.mark.parametrize(
    ("wanted", "found", "says"),
    [
        ("", "", None),
        ("ab", "ba", None),
        ("ab", "b", "is not in rack1"),
        ("", "bz", "is also in rack2, z"),
        ("a", "b", "is not in rack1; is also in rack2"),
    ],
)
def test_a_provider_mirrors_the_aggregates_of_its_host(wanted: str, found: str, says: str | None) -> None:
    drift = judge_mirror("h1", frozenset(wanted), frozenset(found), {"a": "rack1", "b": "rack2"})
    assert (drift and (drift.kind, drift.key, drift.says)) == (says and (MIRROR_WRONG, "h1", says))


def test_two_starts_of_one_agent_are_named_by_their_labels_and_times() -> None:
    since = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    drift = judge_clash(AgentClash(label="new", since=since, former_label="old", former_at=since))
    assert (drift.kind, drift.key) == (AGENT_TWICE, "new")
    assert drift.says == "started at 2026-01-02T03:04:05+00:00, while old runs, heard at 2026-01-02T03:04:05+00:00"
