"""The sentence that says why no host was found, by what placement really answers."""

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from roost.placement.model import ProviderRow
from roost.placement.search.index import Delta, Index
from roost.placement.search.matching import find_in
from roost.scheduling.explain import ALL_OPEN, SEGMENTS_MAX, ClosedHosts, Explanation, addresses_asked, explain
from roost.scheduling.filters import apply_filters
from roost.scheduling.request import Request, alternatives, build_query, build_request
from roost.seams.compute import RequestSpec
from roost.seams.network import NetworkView, Port, Segment
from roost.seams.placement import (
    DISABLED,
    DISK_GB,
    IPV4_ADDRESS,
    IPV6_ADDRESS,
    MEMORY_MB,
    SHARING,
    VCPU,
    Candidates,
    Inventory,
)

SPEC = RequestSpec(vcpus=1, memory_mb=1024, disk_gb=10)


def network(network_id: str, name: str, *segments: str, dry: Sequence[str] = ()) -> NetworkView:
    """A routed network over these segments, or a plain one without; `dry` ones have no subnet."""
    made = tuple(
        Segment(
            provider_uuid=f"s-{one}",
            name=one,
            placement_aggregate=f"a-{one}",
            classes=() if one in dry else (IPV4_ADDRESS,),
            gives_addresses=one not in dry,
        )
        for one in segments or (name,)
    )
    return NetworkView(id=network_id, name=name, routed=bool(segments), segments=made)


PUBLIC = network("net", "public", "rack1", "rack2", "rack3")
STORAGE = network("sto", "storage", "box1", "box2")
BACKEND = network("back", "backend")


def port(tag: str = "0", on: NetworkView = PUBLIC, *, address: str | None = None, segment: str = "") -> Port:
    return Port(
        id=f"p{tag}", tag=tag, network_id=on.id, project_id="p", mac_address="m", revision=1, preserve_on_delete=False,
        needs_address=address is None, addresses=(address,) if address else (), pinned=address is not None,
        provider_uuid=f"s-{segment}" if address else None,
    )  # fmt: skip


class HasRoomError(Exception):
    """There is nothing to explain."""


class Cloud:
    """What the ledger knows: hosts by the segments they reach, and segments by (addresses, used)."""

    def __init__(self) -> None:
        self.providers: list[ProviderRow] = []

    def _add(self, uuid: str, **fields: object) -> None:
        number = len(self.providers)
        rest = {"name": uuid, "generation": 0, "parent_id": None, "root_id": number, "traits": frozenset(), **fields}
        self.providers.append(ProviderRow(id=number, uuid=uuid, **rest))

    def hosts(self, count: int, *reach: str, free: tuple[int, int, int] = (8, 4096, 100), on: bool = True) -> "Cloud":
        """free: VCPU, MEMORY_MB, DISK_GB; below zero: no inventory of it."""
        for _ in range(count):
            self._add(
                f"h{len(self.providers)}",
                inventories={n: Inventory(9999) for n, one in zip(NAMES, free, strict=True) if one >= 0},
                used={n: 9999 - one for n, one in zip(NAMES, free, strict=True) if one >= 0},
                traits=frozenset() if on else frozenset({DISABLED}),
                placement_aggregates=frozenset(f"a-{one}" for one in reach),
            )
        return self

    def segment(self, name: str, total: int, used: int, *, ipv6: tuple[int, int] | None = None) -> "Cloud":
        """ipv6: (total, used) beside IPv4."""
        of_class = {IPV4_ADDRESS: (total, used), **({IPV6_ADDRESS: ipv6} if ipv6 else {})}
        self._add(
            f"s-{name}", inventories={c: Inventory(n, max_unit=n) for c, (n, _) in of_class.items()},
            used={c: u for c, (_, u) in of_class.items()},
            traits=frozenset({SHARING}), placement_aggregates=frozenset({f"a-{name}"}),
        )  # fmt: skip
        return self

    def ask(
        self, *ports: Port, networks: tuple[NetworkView, ...] = (PUBLIC, STORAGE, BACKEND),
        excluded: tuple[str, ...] = (), source: str | None = None, earlier: str | None = None,
        closed: ClosedHosts = ALL_OPEN, empty: frozenset[str] = frozenset(),
    ) -> Explanation:  # fmt: skip
        index = Index()
        index.apply(Delta(providers=self.providers))
        views = {one.id: one for one in networks}
        tried: list[tuple[Request, Candidates | None]] = []
        bare = build_request(SPEC, ports, views, excluded_hosts=excluded, source_host=source)
        for request in map(apply_filters, alternatives(bare)):
            found: Candidates | None = None
            if request.impossible is None:
                found = find_in(index, build_query(request, limit=100))
                if not {found.summaries[one.root_uuid].name for one in found.candidates} <= set(excluded):
                    raise HasRoomError
            tried.append((request, found))
        usages = {
            one.uuid: {name: (held.capacity, one.used[name]) for name, held in one.inventories.items()}
            for one in self.providers
        }
        asked = addresses_asked(tried[0][0])
        return explain(
            tried, {uuid: usages[uuid] for uuid in asked if uuid in usages}, ports=ports, closed=closed,
            empty_aggregates=empty, earlier=earlier,
        )  # fmt: skip


NAMES = (VCPU, MEMORY_MB, DISK_GB)
HOST = "12 with 1 VCPU free, 12 with 1024 MB memory free, 12 with 10 GB disk free"


def racks(*used: int) -> Cloud:
    """Three racks of four hosts with 13, 13 and 5 addresses."""
    cloud = Cloud()
    for name, total, taken in zip(("rack1", "rack2", "rack3"), (13, 13, 5), used, strict=True):
        cloud.hosts(4, name).segment(name, total, taken)
    return cloud


def test_a_network_without_free_addresses_is_said_in_the_operators_words() -> None:
    said = racks(13, 13, 5).ask(port())
    assert said.message == (
        f"No valid host was found: 12 hosts considered, 12 enabled, 12 reach network public, {HOST}, "
        "0 with a free address on network public. "
        "The addresses of network public ran out: rack1 0 of 13 free, rack2 0 of 13 free, rack3 0 of 5 free."
    )
    assert said.funnel == (
        ("considered", 12),
        ("enabled", 12),
        ("reach network public", 12),
        ("with 1 VCPU free", 12),
        ("with 1024 MB memory free", 12),
        ("with 10 GB disk free", 12),
        ("with a free address on network public", 0),
    )


def test_segments_that_no_host_reaches_are_named_beside_those_that_are_full() -> None:
    cloud = Cloud().hosts(2, "rack1").segment("rack1", 13, 13).segment("rack2", 13, 0).segment("rack3", 5, 0)
    assert cloud.ask(port(), empty=frozenset({"a-rack2"})).message.endswith(
        "rack1 0 of 13 free, rack2 13 of 13 free, rack3 5 of 5 free. "
        "No host reaches segment rack2 of network public: have agents report its physical network."
    )
    assert cloud.ask(port(), empty=frozenset({"a-rack2", "a-rack3"})).message.endswith(
        "No host reaches segments rack2 and rack3 of network public: have agents report their physical networks."
    )


def test_each_resource_that_is_missing_is_named_and_what_follows_it_is_not_to_blame() -> None:
    cloud = Cloud().hosts(3, "rack1", free=(8, 512, 100)).hosts(1, "rack1", free=(0, 4096, 100)).segment("rack1", 5, 2)
    assert cloud.ask(port()).message == (
        "No valid host was found: 4 hosts considered, 4 enabled, 4 reach network public, 3 with 1 VCPU free, "
        "0 with 1024 MB memory free, and so 0 with 10 GB disk free, 0 with a free address on network public. "
        "1 host has 1024 MB memory free but not 1 VCPU free; 3 hosts have 1 VCPU free but not 1024 MB memory free. "
        "Addresses of network public: rack1 3 of 5 free, rack2 0 of 0 free, rack3 0 of 0 free."
    )


NO_CPU, NO_MEMORY, ALL = (0, 4096, 100), (8, 512, 100), (8, 4096, 100)
TEN = tuple(f"r{number}" for number in range(10))
ADDRESS = "a free address on network public"


@pytest.mark.parametrize(
    ("racks", "networks", "words"),
    [
        pytest.param([(3, ("rack1",), NO_CPU, 3), (2, ("rack2",), ALL, 0)], [PUBLIC],
                     f"3 hosts of segment rack1 have {ADDRESS} but not 1 VCPU free; "
                     f"2 hosts of segment rack2 have 1 VCPU free but not {ADDRESS}. No host that is left",
                     id="addresses and no CPU, CPU and no addresses"),
        pytest.param([(1, ("rack1",), NO_CPU, 3), (1, ("rack3",), NO_CPU, 3), (1, ("rack2",), ALL, 0)], [PUBLIC],
                     f"2 hosts of segments rack1 and rack3 have {ADDRESS} but not 1 VCPU free; "
                     f"1 host of segment rack2 has 1 VCPU free but not {ADDRESS}.", id="on several segments"),
        pytest.param([*((1, (name,), NO_CPU, 3) for name in TEN), (1, ("rack2",), ALL, 0)],
                     [network("net", "public", *TEN, "rack2")],
                     f"10 hosts of segments r0, r1, r2 and 7 more have {ADDRESS} but not 1 VCPU free; 1 host of",
                     id="on many segments"),
        pytest.param([(3, ("rack1",), NO_CPU, 3), (2, ("rack2",), NO_MEMORY, 3)], [PUBLIC],
                     "3 hosts of segment rack1 have 1024 MB memory free but not 1 VCPU free; "
                     "2 hosts of segment rack2 have 1 VCPU free but not 1024 MB memory free.",
                     id="CPU and memory, on different segments"),
        pytest.param([(3, ("rack1",), NO_CPU, 3), (2, ("rack1",), NO_MEMORY, 3)], [PUBLIC],
                     "3 hosts have 1024 MB memory free but not 1 VCPU free; "
                     "2 hosts have 1 VCPU free but not 1024 MB memory free.", id="on one segment"),
        pytest.param([(3, ("backend",), NO_CPU, 3), (2, ("backend",), NO_MEMORY, 3)], [BACKEND],
                     "3 hosts have 1024 MB memory free but not 1 VCPU free; 2 hosts have 1 VCPU",
                     id="on a network without segments"),
        pytest.param([(3, ("rack1", "box1"), NO_CPU, 3), (2, ("rack2", "box2"), ALL, 0)],
                     [STORAGE, PUBLIC],
                     "3 hosts of segment box1 have a free address on network storage but not 1 VCPU free; "
                     "2 hosts of segment box2 have", id="the segments of the network that is short"),
        pytest.param([(3, ("rack1", "box1"), NO_CPU, 3), (2, ("rack2", "box1"), NO_MEMORY, 3)],
                     [STORAGE, PUBLIC], "3 hosts of segment rack1 have 1024 MB memory free but",
                     id="the segments of the network that tells them apart"),
        pytest.param([(3, ("rack1",), NO_CPU, 3), (2, ("rack2",), ALL, 0)],
                     [replace(PUBLIC, flat=True)],
                     "3 hosts of cell rack1 have", id="the cells of a flat network"),
    ],
)  # fmt: skip
def test_two_things_that_are_short_in_different_places_are_both_said_with_their_places(
    racks: list[tuple[int, tuple[str, ...], tuple[int, int, int], int]], networks: list[NetworkView], words: str
) -> None:
    cloud = Cloud()
    for count, reach, free, _ in racks:
        cloud.hosts(count, *reach, free=free)
    for name, addresses in {name: addresses for _, reach, _, addresses in racks for name in reach}.items():
        cloud.segment(name, 7, 7 - addresses)
    ports = [port(str(tag), view) for tag, view in enumerate(networks)]
    assert words in cloud.ask(*ports, networks=tuple(networks)).message


def test_one_thing_that_is_short_everywhere_is_said_once() -> None:
    assert "but not" not in racks(13, 13, 5).ask(port()).message


def test_free_addresses_that_only_full_hosts_reach_are_not_called_out() -> None:
    cloud = Cloud().hosts(1, "rack1", free=(0, 1, 1)).hosts(1, "rack2").segment("rack1", 5, 1).segment("rack2", 5, 5)
    said = cloud.ask(port(), networks=(network("net", "public", "rack1", "rack2"),)).message
    assert "1 with 10 GB disk free, 0 with a free address on network public." in said
    assert said.endswith(
        "No host that is left reaches a free address of network public: rack1 4 of 5 free, rack2 0 of 5 free."
    )


def test_two_networks_have_each_their_lines_and_their_segments() -> None:
    cloud = racks(0, 0, 0).hosts(2, "rack1", "box1").segment("box1", 9, 9).segment("box2", 9, 0)
    said = cloud.ask(port("0"), port("1", STORAGE))
    assert "14 reach network public, 2 reach network storage, 2 with 1 VCPU free" in said.message
    assert "2 with a free address on network public, 0 with a free address on network storage." in said.message
    assert "Addresses of network public: rack1 13 of 13 free, rack2 13 of 13 free, rack3 5 of 5 free." in said.message
    assert said.message.endswith(
        "No host that is left reaches a free address of network storage: box1 0 of 9 free, box2 9 of 9 free."
    )


def test_two_networks_of_one_name_are_not_taken_for_one() -> None:
    twin = network("twin", "public", "box1")
    cloud = racks(0, 0, 0).hosts(2, "rack1", "box1").segment("box1", 9, 9)
    words = [row for row, _ in cloud.ask(port("0"), port("1", twin), networks=(PUBLIC, twin)).funnel]
    assert words.count("reach network public") == words.count("with a free address on network public") == 2


def test_two_nics_that_do_not_fit_together_are_two_addresses_for_one_server() -> None:
    said = racks(12, 12, 4).ask(port("0"), port("1"))
    assert "12 with a free address on network public, 0 with 2 addresses of network public for one server." in (
        said.message
    )
    assert said.message.endswith(
        "No host that is left reaches 2 free addresses of network public: "
        "rack1 1 of 13 free, rack2 1 of 13 free, rack3 1 of 5 free."
    )


def test_a_port_with_an_address_is_said_to_hold_its_server_to_its_segment() -> None:
    full = Cloud().hosts(1, "rack1").hosts(1, "rack3", free=(0, 0, 0)).segment("rack3", 5, 5)
    said = full.ask(port(address="203.0.113.34", segment="rack3"))
    assert said.message == (
        "No valid host was found: 2 hosts considered, 2 enabled, 1 reaches segment rack3 of network public, "
        "0 with 1 VCPU free, and so 0 with 1024 MB memory free, 0 with 10 GB disk free. "
        "The port with address 203.0.113.34 holds the server to segment rack3 of network public."
    )
    alone = Cloud().hosts(2, "rack1").ask(port(address="203.0.113.34", segment="rack3")).message
    assert "0 reach segment rack3 of network public, and so 0 with 1 VCPU free" in alone
    assert (
        "No enabled host reaches segment rack3 of network public: enable a host that does, or have its agent report "
        "the physical network of segment rack3. The port with address 203.0.113.34 holds the server to segment rack3"
    ) in alone


@pytest.mark.parametrize(
    ("cloud", "ports", "words"),
    [
        (Cloud(), [port()], "0 hosts considered, and so 0 enabled"),
        (Cloud(), [port()], "There is no host at all: start an agent on one."),
        (Cloud().hosts(2, "rack1", on=False), [port()], "2 hosts considered, 0 enabled, and so 0 reach network public"),
        (
            Cloud().hosts(2, "rack1", on=False),
            [port()],
            "Every host is disabled: enable one, or accept one that waits (roost-manage host list).",
        ),
        (Cloud().hosts(2), [port()], "or have its agent report the physical network of one of its segments (rack1, r"),
        (Cloud().hosts(2), [port(on=BACKEND)], "reaches network backend: enable a host that does, or have its agent"),
        (
            Cloud().hosts(2, "rack1").segment("rack1", 1, 0).hosts(2, "box1").segment("box1", 1, 0),
            [port(), port("1", STORAGE)],
            "No enabled host that can reach network public also reaches network storage: enable a host that does",
        ),
        (
            Cloud().hosts(1, "rack1").segment("rack2", 1, 0),
            [port()],
            "1 reaches network public, 0 reach a subnet of network public, and so 0 with 1 VCPU free",
        ),
        (Cloud().hosts(1, "rack1"), [port()], "Hosts reach network public only where it has no subnet: add a subnet"),
        (Cloud().hosts(3, free=(8, 4096, -1)), [], "3 hosts considered, 0 with CPU, memory and disk at all"),
        (
            Cloud().hosts(1, "backend").segment("backend", 5, 5),
            [port(on=BACKEND)],
            "The addresses of network backend ran out: 0 of 5 free.",
        ),
    ],
)
def test_each_no_says_what_is_missing_and_what_to_do(cloud: Cloud, ports: list[Port], words: str) -> None:
    assert words in cloud.ask(*ports).message


@pytest.mark.parametrize(
    ("closed", "words"),
    [
        (ClosedHosts(down=2), "2 hosts considered, 0 up and enabled (2 down), and so 0 reach network public"),
        (ClosedHosts(down=2), "2 hosts are down: start the agent of a host, or enable one that is up."),
        (ClosedHosts(down=1, disabled=1), "1 host is down, 1 is disabled: start the agent of a host, or enable one"),
        (ClosedHosts(disabled=2), "2 hosts considered, 0 enabled, and so 0 reach network public"),
        (
            ClosedHosts(disabled=2),
            "Every host is disabled: enable one, or accept one that waits (roost-manage host list).",
        ),
    ],
)
def test_hosts_that_are_down_are_told_from_those_that_an_operator_closed(closed: ClosedHosts, words: str) -> None:
    assert words in Cloud().hosts(2, "rack1", on=False).ask(port(), closed=closed).message


def test_where_hosts_are_down_no_host_that_is_up_reaches_the_network() -> None:
    said = Cloud().hosts(2).hosts(2, "rack1", on=False).ask(port(), closed=ClosedHosts(down=2)).message
    assert "4 hosts considered, 2 up and enabled (2 down), 0 reach network public" in said
    assert "No enabled host that is up reaches network public: enable a host that does or start its agent, or" in said


def test_a_network_that_cannot_be_had_is_said_without_counting_hosts() -> None:
    dry = network("net", "public", "rack1", dry=["rack1"])
    assert racks(0, 0, 0).ask(port(), networks=(dry,)).message == (
        "No valid host was found: network public has no subnet with an allocation pool that servers may use; "
        "add a subnet to it."
    )
    lost = replace(PUBLIC, segments=tuple(replace(one, placement_aggregate=None) for one in PUBLIC.segments))
    said = racks(0, 0, 0).ask(port(address="203.0.113.34", segment="rack3"), networks=(lost,))
    assert said.message.startswith(
        "No valid host was found: no host reaches segment rack3 of network public, for it has no host aggregate; "
    )
    assert "The port with address 203.0.113.34 holds the server to segment rack3" in said.message
    assert said.funnel == ()


def test_hosts_that_fit_and_failed_before_are_named_with_the_last_failure() -> None:
    cloud = Cloud().hosts(2, "rack1").segment("rack1", 5, 1)
    said = cloud.ask(port(), excluded=("h1", "h0"), earlier="h1 failed to launch the server: no such image.")
    assert said.message == (
        "No valid host was found: 2 hosts with all that was asked for, 0 where the server has not failed before. "
        "Addresses of network public: rack1 4 of 5 free, rack2 0 of 0 free, rack3 0 of 0 free. "
        "The server failed on h0, h1 before and is not tried there again; "
        "the last time: h1 failed to launch the server: no such image."
    )
    assert said.funnel == (("with all that was asked for", 2), ("where the server has not failed before", 0))
    elsewhere = racks(13, 13, 5).ask(port(), excluded=("h0",)).message
    assert elsewhere.endswith("The server failed on h0 before and is not tried there again.")


def test_a_host_that_a_move_is_to_leave_has_not_failed() -> None:
    cloud = Cloud().hosts(2, "rack1").segment("rack1", 5, 1)
    alone = Cloud().hosts(1, "rack1").segment("rack1", 5, 1).ask(port(), excluded=("h0",), source="h0")
    assert alone.funnel == (("with all that was asked for", 1), ("where the server is not already", 0))
    assert alone.message.endswith("The server is to leave h0, so that host is not tried.")
    said = cloud.ask(port(), excluded=("h1", "h0"), source="h0", earlier="no such image").message
    assert said.endswith(
        "The server is to leave h0, so that host is not tried. "
        "The server failed on h1 before and is not tried there again; the last time: no such image."
    )


def test_a_network_of_many_segments_is_summed_up() -> None:
    names = [f"rack{number:03}" for number in range(SEGMENTS_MAX + 10)]
    cloud = Cloud().hosts(1, *names)
    for name in names:
        cloud.segment(name, 7, 7)
    said = cloud.ask(port(), networks=(network("net", "public", *names),)).message
    assert said.count(" of 7 free") == SEGMENTS_MAX
    assert said.endswith("rack031 0 of 7 free, 10 more segments 0 of 70 free.")


ALWAYS = ("considered", "enabled", "with 1 VCPU free", "with 1024 MB memory free", "with 10 GB disk free")


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_counts_never_grow_and_no_requirement_is_left_out(data: st.DataObject) -> None:
    segments = ("rack1", "rack2", "rack3", "box1", "box2", "backend")
    cloud = Cloud()
    for _ in range(data.draw(st.integers(0, 6))):
        free = data.draw(st.tuples(*(st.sampled_from((-1, 0, 5000)) for _ in NAMES)))
        cloud.hosts(1, *data.draw(st.sets(st.sampled_from(segments))), free=free, on=data.draw(st.booleans()))
    for name in sorted(data.draw(st.sets(st.sampled_from(segments)))):
        cloud.segment(name, 5, data.draw(st.integers(3, 5)))
    nics = data.draw(st.lists(st.sampled_from((PUBLIC, STORAGE, BACKEND)), min_size=1, max_size=3))
    ports = [port(str(tag), on) for tag, on in enumerate(nics)]
    try:
        said = cloud.ask(*ports)
    except HasRoomError:
        return
    counts = [left for _, left in said.funnel]
    assert counts == sorted(counts, reverse=True)
    assert counts[-1] == 0
    words = [row for row, _ in said.funnel]
    for expected in ALWAYS:
        assert expected in words
    for nic in {one.id: one for one in nics}.values():
        assert (
            words.count(f"reach network {nic.name}") == words.count(f"with a free address on network {nic.name}") == 1
        )
        for segment in nic.segments if nic.routed else ():
            assert f" {segment.name} " in said.message
    for jargon in ("IPV4_ADDRESS", "aggregate", "_nic", "provider", "group", "COMPUTE_STATUS"):
        assert jargon not in said.message


BOTH, FOUR, SIX = (IPV4_ADDRESS, IPV6_ADDRESS), (IPV4_ADDRESS,), (IPV6_ADDRESS,)


def mixed(**classes: tuple[str, ...]) -> NetworkView:
    made = tuple(
        Segment(provider_uuid=f"s-{name}", name=name, placement_aggregate=f"a-{name}", classes=of)
        for name, of in classes.items()
    )
    return NetworkView(id="net", name="public", routed=True, segments=made)


def test_the_family_that_ran_out_is_named() -> None:
    cloud = Cloud().hosts(4, "rack1").segment("rack1", 13, 2, ipv6=(5, 5))
    said = cloud.ask(port(), networks=(mixed(rack1=BOTH),))
    assert "4 with a free IPv4 address on network public, 0 with a free IPv6 address on network public" in said.message
    assert said.message.endswith(
        "The IPv6 addresses of network public ran out: rack1 IPv4 11 of 13 free and IPv6 0 of 5 free."
    )


def test_unlike_segments_are_tried_one_kind_after_the_other_and_all_are_told() -> None:
    cloud = Cloud().hosts(4, "rack1").segment("rack1", 13, 2, ipv6=(5, 5)).hosts(2, "rack2").segment("rack2", 3, 3)
    said = cloud.ask(port(), networks=(mixed(rack1=BOTH, rack2=FOUR),))
    assert "4 reach network public where it has IPv4 and IPv6" in said.message
    assert (
        "Tried as well: 2 reach network public where it has IPv4 alone, 2 with 1 VCPU free, 2 with 1024 MB memory free,"
        " 2 with 10 GB disk free, 0 with a free address on network public."
    ) in said.message
    assert said.message.endswith("rack1 IPv4 11 of 13 free and IPv6 0 of 5 free, rack2 IPv4 0 of 3 free.")
    roomy = Cloud().hosts(4, "rack1").segment("rack1", 13, 2, ipv6=(5, 5)).hosts(2, "rack2").segment("rack2", 3, 2)
    with pytest.raises(HasRoomError):
        roomy.ask(port(), networks=(mixed(rack1=BOTH, rack2=FOUR),))


def test_where_nothing_runs_out_reaching_the_network_is_enough() -> None:
    view = mixed(rack1=(), rack2=SIX)
    with pytest.raises(HasRoomError):
        Cloud().hosts(1, "rack1").ask(port(), networks=(view,))
    said = Cloud().hosts(2, "elsewhere").ask(port(), networks=(view,))
    assert "0 reach network public where it has IPv6 alone" in said.message
    assert "Tried as well: 0 reach network public where it has no addresses that run out." in said.message


@pytest.mark.parametrize(
    ("closed", "words"),
    [
        (ClosedHosts(), ""),
        (ClosedHosts(disabled=3), ""),
        (ClosedHosts(down=2), "2 down"),
        (ClosedHosts(down=2, of_silent_cells=1), "2 down, 1 in a cell whose conductors are gone"),
    ],
)
def test_closed_hosts_say_why(closed: ClosedHosts, words: str) -> None:
    assert closed.words == words
