"""Real hosts on one machine, as far as they are text: which namespaces, which commands, what is asked of guests."""

from dataclasses import replace as change
from pathlib import Path

import pytest

from roost.cli.asking.cloudfile import Cloud, parse_cloud
from roost.cli.asking.demo import three_racks
from roost.cli.asking.real_demo import real_racks
from roost.cli.asking.real_hosts import agent_command
from roost.cli.asking.real_network import HOSTS_MAX, MANAGEMENT_ADDRESSES, RealFailed, plan_network
from roost.cli.asking.real_probes import count_received, ping_script, spoof_script
from roost.cli.asking.real_story import Spoofed


def cloud_of(network: str, hosts: str = "h1") -> Cloud:
    text = f"""
    networks: [{network}]
    hosts: [{{name: '{hosts}', vcpus: 1, ram_mb: 1024, disk_gb: 10, physical_networks: [left, right]}}]
    """
    return parse_cloud(text, name="c")[0]


PLAIN = "{name: plain, physical_network: left, subnets: [{cidr: 10.0.0.0/24}]}"


def test_hosts_are_namespaces_whose_cables_go_to_the_switch_of_their_rack() -> None:
    network = plan_network(real_racks(), prefix="p")
    assert network.namespaces == ["p-fabric", "p-r1-h1", "p-r1-h2", "p-r2-h1", "p-r3-h1"]
    assert [dict(host.bridges) for host in network.hosts] == [
        {"rack1": "br0"}, {"rack1": "br0"}, {"rack2": "br1"}, {"rack3": "br2"},
    ]  # fmt: skip
    lines: dict[str, list[str]] = {namespace: [] for namespace in network.namespaces}
    for namespace, some in network.commands:
        lines[namespace] += some
    assert "address add 203.0.113.17/28 dev sw1" in lines["p-fabric"]
    assert "link set h2p1 master sw1 up" in lines["p-fabric"]
    assert lines["p-r2-h1"] == [
        "link set lo up",
        "link add mgmt type veth peer name h2m netns p-fabric",
        "address add 169.254.1.3/24 dev mgmt",
        "link set mgmt up",
        "link add br1 type bridge",
        "link add up1 type veth peer name h2p1 netns p-fabric",
        "link set up1 master br1 up",
        "link set br1 up",
    ]


def test_no_host_has_an_address_of_a_subnet_and_no_name_is_too_long() -> None:
    network = plan_network(cloud_of(PLAIN, hosts=f"h[1-{HOSTS_MAX}]"), prefix="roost-4194304")
    for namespace, lines in network.commands:
        words = [line.split() for line in lines]
        addresses = [word[2] for word in words if word[0] == "address"]
        if namespace != network.fabric:
            assert all(address.startswith(str(MANAGEMENT_ADDRESSES[0])[:-1]) for address in addresses)
        names = [word[index + 1] for word in words for index in range(len(word)) if word[index] in ("add", "name")]
        assert all(len(name) < 16 for name in names if "/" not in name)
    assert len({host.address for host in network.hosts}) == HOSTS_MAX


@pytest.mark.parametrize(
    ("cloud", "sentence"),
    [
        (three_racks(), "segment rack1 of network public is of type vlan: real hosts on one machine have flat"),
        (cloud_of("{name: n, kind: flat, subnets: [{cidr: 10.0.0.0/24, cell: cell1}]}"), "network n is not on"),
        (cloud_of("{name: n, subnets: [{cidr: 10.0.0.0/24}]}"), "network n is not on a physical network"),
        (
            cloud_of("{name: n, physical_network: left, segmentation_id: 7, subnets: [{cidr: 10.0.0.0/24}]}"),
            "network n is of type vlan",
        ),
        (cloud_of(PLAIN, hosts=f"h[1-{HOSTS_MAX + 1}]"), f"at most {HOSTS_MAX} real hosts: the cloud file has 25"),
    ],
)
def test_what_one_machine_does_not_play_is_said(cloud: Cloud, sentence: str) -> None:
    with pytest.raises(RealFailed, match=sentence):
        plan_network(cloud, prefix="p")


def test_a_network_that_no_host_reaches_needs_no_bridge_there() -> None:
    [host] = plan_network(cloud_of(PLAIN), prefix="p").hosts
    assert dict(host.bridges) == {"left": "br0"}


def test_a_subnet_without_gateway_has_no_router() -> None:
    cloud = cloud_of("{name: n, physical_network: left, subnets: [{cidr: 10.0.0.0/24, gateway: null}]}")
    _, lines = plan_network(cloud, prefix="p").commands[0]
    assert not [line for line in lines if line.startswith("address")]


def test_an_agent_is_told_its_bridges_and_where_its_api_is() -> None:
    host = change(plan_network(real_racks(), prefix="p").hosts[2], bridges={"rack2": "br1", "rack3": "br2"})
    words = agent_command(host, Path("/data/hosts"), 8778, "tcg")
    assert " ".join(words) == (
        "agent --driver qemu --host r2-h1 --api http://127.0.0.1:8778 --state /data/hosts/r2-h1 "
        "--migrate-listen 169.254.1.3 --accel tcg --account 60902 "
        "--bridge rack2=br1 --bridge rack3=br2 --until-stdin-ends"
    )


def test_what_guests_are_asked_to_do_is_read_by_its_answers() -> None:
    assert ping_script(["10.0.0.2", "10.0.0.3"]).splitlines() == ["ping -c 1 -W 3 10.0.0.2", "ping -c 1 -W 3 10.0.0.3"]
    script = spoof_script(gateway="10.0.0.1", address="10.0.0.9", prefix=24, mac="52:54:00:66:66:66")
    assert script.count("ping -c 2") == 4
    printed = (
        "2 packets transmitted, 2 packets received, 0% packet loss\n"
        "ping: sendto: Network unreachable\n"
        "2 packets transmitted, 0 packets received, 100% packet loss\n"
    )
    assert count_received(printed) == [2, 0]


@pytest.mark.parametrize(
    ("counts", "holds"),
    [((2, 0, 0, 2), True), ((2, 1, 0, 2), False), ((2, 0, 1, 2), False), ((0, 0, 0, 2), False), ((2, 0, 0, 0), False)],
)
def test_a_spoofer_is_held_if_it_is_heard_as_itself_alone(counts: tuple[int, ...], holds: bool) -> None:
    names = ("as_itself", "other_address", "other_mac", "as_itself_again")
    assert Spoofed(server="web", **dict(zip(names, counts, strict=True))).held is holds
