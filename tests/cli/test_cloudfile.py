from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roost.cli.asking.cloudfile import (
    CloudFileError,
    expand_ranges,
    parse_cloud,
    read_cloud,
    subnet_gateway,
    subnet_pools,
)
from roost.cli.asking.demo import three_racks

EXAMPLE = Path(__file__).parents[2] / "examples" / "three-racks.yaml"
TEXT = EXAMPLE.read_text()


def refusal(text: str) -> str:
    with pytest.raises(CloudFileError) as caught:
        parse_cloud(text, name="cloud.yaml")
    return str(caught.value)


CELLS = EXAMPLE.with_name("two-cells.yaml").read_text()


def test_a_flat_network_has_a_pool_for_each_cell_and_hosts_are_in_one() -> None:
    cloud, warnings = parse_cloud(CELLS, name="cloud.yaml")
    assert warnings == []
    assert cloud.networks[0].kind == "flat"
    assert [subnet.cell for subnet in cloud.networks[0].subnets] == ["cell1", "cell2", "cell2"]
    assert [hosts.cell for hosts in cloud.hosts] == ["cell1", "cell2"]
    _, warnings = parse_cloud(CELLS.replace("cell: cell1", "cell: cell9"), name="cloud.yaml")
    assert "networks[0].subnets[0].cell: no host of this file is in 'cell9'" in warnings[0]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (", cell: cell1}", "}", "networks[0].subnets[0]: expected a cell: the network is flat"),
        (
            "    kind: flat\n",
            "",
            "networks[0].subnets[0].cell: expected none here: only the subnets",
        ),
        ("kind: flat", "kind: round", "networks[0].kind: "),
        ("kind: flat", "kind: flat\n    physical_network: rack1", "networks[0].physical_network: expected none here"),
        (
            "    subnets:\n",
            "    segments: [{name: a, physical_network: b}]\n    subnets:\n",
            "segments: expected none here",
        ),
    ],
)
def test_a_flat_network_that_cannot_be_is_refused_in_words(old: str, new: str, said: str) -> None:
    assert old in CELLS
    assert said in refusal(CELLS.replace(old, new, 1))


@pytest.mark.parametrize("name", ["../../etc", "'r1/h[1-4]'", '"r1\\n"', "'-h[1-4]'"])
def test_a_host_name_that_is_none_is_refused_in_words(name: str) -> None:
    assert "'r1-h[1-4]'" in TEXT
    said = refusal(TEXT.replace("'r1-h[1-4]'", name, 1))
    assert "hosts[0].name: " in said
    assert "is no host name: " in said


def test_the_example_is_read_without_a_warning() -> None:
    cloud, warnings = read_cloud(EXAMPLE)
    assert warnings == []
    assert [segment.name for segment in cloud.networks[0].segments] == ["rack1", "rack2", "rack3"]
    assert cloud.hosts[0].names() == ["r1-h1", "r1-h2", "r1-h3", "r1-h4"]


def test_without_a_word_the_gateway_is_the_first_address_and_the_pool_the_rest() -> None:
    subnet = read_cloud(EXAMPLE)[0].networks[0].segments[0].subnets[0]
    assert str(subnet_gateway(subnet)) == "203.0.113.1"
    assert [(str(first), str(last)) for first, last in subnet_pools(subnet)] == [("203.0.113.2", "203.0.113.14")]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("vcpus: 1,", "vcpus: one,", "cloud.yaml:3: flavors[0].vcpus: expected a whole number, got text"),
        ("vcpus: 1,", "", "cloud.yaml:3: flavors[0]: the key 'vcpus' is missing"),
        ("vcpus: 1,", "vcpus: 0,", "flavors[0].vcpus: expected a whole number from 1 on"),
        ("vcpus: 1,", "cpus: 1, vcpus: 1,", "flavors[0]: unknown key 'cpus': known here are name, vcpus, ram_mb"),
        ("vcpus: 1,", "vcpus: 1, vcpus: 2,", "flavors[0].vcpus: expected this key once"),
        ("flavors:", "flavours:", "cloud.yaml:2: unknown key 'flavours': known here are flavors, networks, hosts"),
        ("203.0.113.16/28", "203.0.113.17/28", "networks[0].segments[1].subnets[0].cidr: expected an IPv4 network"),
        ("203.0.113.16/28", "203.0.113.8/29", "segments[1].subnets[0].cidr: expected addresses of its own"),
        ("203.0.113.16/28", "2001:db8::/64", "segments[1].subnets[0].cidr: expected an IPv4 network"),
        ("203.0.113.16/28", "203.0.113.16/31", "segments[1].subnets[0].cidr: expected at least four addresses"),
        ("203.0.113.0/28", "203.0.113.0/28, gateway: 203.0.113.77", "subnets[0].gateway: expected an address inside"),
        (
            "203.0.113.0/28",
            "203.0.113.0/28, pools: [{start: 203.0.113.1, end: 203.0.113.5}]",
            "subnets[0].pools[0]: expected a pool without the gateway 203.0.113.1",
        ),
        (
            "203.0.113.0/28",
            "203.0.113.0/28, pools: [{start: 203.0.113.5, end: 203.0.113.4}]",
            "pools[0].end: expected an address from 203.0.113.5 on",
        ),
        (
            "203.0.113.0/28",
            "203.0.113.0/28, pools: [{start: 203.0.113.5, end: 203.0.113.99}]",
            "pools[0].end: expected an address inside 203.0.113.0/28",
        ),
        ("name: rack2\n", "name: rack1\n", "segments[1].name: expected a name of its own, 'rack1' is networks[0].seg"),
        ("r2-h[1-4]", "r1-h[4-5]", "hosts[1].name: expected names of their own, 'r1-h4' is among hosts[0]"),
        ("r2-h[1-4]", "r2-h[4-1]", "hosts[1].name: expected a range that counts up"),
        ("r2-h[1-4]", "r2-h[a-b]", "hosts[1].name: expected a range such as [1-4]"),
        ("flavor: small", "flavor: big", "servers[0].flavor: expected a flavor of this file (small), got 'big'"),
        ("networks: [public]", "networks: [lan]", "servers[0].networks[0]: expected a network of this file (public)"),
        ("flavors:", "{", "cloud.yaml:"),
        ("flavors:", "- flavors:", "cloud.yaml:"),
    ],
)
def test_an_error_names_the_file_the_key_and_what_was_expected(old: str, new: str, said: str) -> None:
    assert old in TEXT
    assert said in refusal(TEXT.replace(old, new, 1))


def test_all_that_makes_no_sense_is_said_at_once() -> None:
    text = TEXT.replace("flavor: small", "flavor: big").replace("r2-h[1-4]", "r1-h[1-4]")
    assert len(refusal(text).splitlines()) == 2


def test_every_problem_is_said_at_once_whatever_its_kind() -> None:
    """A wrong type, a missing key, an unknown one, a key twice, an unknown section, and what makes no sense."""
    text = TEXT
    for old, new in (
        ("vcpus: 1,", "vcpus: one, vcpus: one,"),
        ("ram_mb: 1024,", "memory: 5,"),
        ("203.0.113.16/28", "203.0.113.17/28"),
        ("r2-h[1-4]", "r1-h[4-5]"),
        ("count: 40", "count: 0, flavour: x"),
    ):
        assert old in text
        text = text.replace(old, new, 1)
    lines = refusal(f"{text}\nracks: []\n").splitlines()
    said = [line.split(": ", 1)[1] for line in lines]
    for start in (
        "flavors[0].vcpus: expected this key once",
        "flavors[0].vcpus: expected a whole number, got text",
        "flavors[0]: the key 'ram_mb' is missing",
        "flavors[0]: unknown key 'memory'",
        "unknown key 'racks'",
        "networks[0].segments[1].subnets[0].cidr: expected an IPv4 network",
        "hosts[1].name: expected names of their own",
        "servers[0].count: expected a whole number from 1 on",
        "servers[0]: unknown key 'flavour'",
    ):
        assert [line for line in said if line.startswith(start)], (start, lines)
    assert len(lines) == 9


def test_a_segment_that_no_host_reaches_is_a_warning() -> None:
    _, warnings = parse_cloud(TEXT.replace("physical_networks: [rack2]", "physical_networks: []"), name="cloud.yaml")
    assert warnings == [
        "cloud.yaml:14: networks[0].segments[1].physical_network: "
        "no host of this file reaches 'rack2'; without one, no server can be here"
    ]


def test_ranges_multiply_and_keep_their_zeros() -> None:
    assert list(expand_ranges("r[1-2]-h[08-10]")) == [
        *("r1-h08", "r1-h09", "r1-h10"),
        *("r2-h08", "r2-h09", "r2-h10"),
    ]


@given(st.integers(0, 2000), st.integers(0, 50), st.booleans())
def test_a_range_has_as_many_names_as_it_counts(first: int, more: int, padded: bool) -> None:
    start = f"{first:04d}" if padded else str(first)
    names = list(expand_ranges(f"h[{start}-{first + more}]"))
    assert len(set(names)) == more + 1
    assert [int(name[1:]) for name in names] == list(range(first, first + more + 1))


def test_the_demo_without_a_file_is_the_example() -> None:
    assert three_racks() == read_cloud(EXAMPLE)[0]
