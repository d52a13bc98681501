"""What is said of a machine."""

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.authority import Authority

from roost.agent.drivers.qemu.check import PACKAGES, HostAsked, HostFacts, find_account, judge_host
from roost.cli.qemu_options import read_bridges, read_host, read_machine
from roost.platform.errors import BadRequest

ASKED = HostAsked(bridges={"rack1": "br0"}, accel="auto", cpu=None, migrate_listen="192.0.2.10")
FACTS: dict[str, Any] = {
    "is_root": True,
    "programs": frozenset(PACKAGES),
    "has_busybox": True,
    "has_tun": True,
    "has_account": True,
    "bridges": frozenset({"br0"}),
    "image_is_cached": False,
    "accel": "kvm",
    "state": Path("/var/lib/roost/agent/h1"),
}


def test_a_machine_with_everything_is_fine() -> None:
    findings = judge_host(ASKED, HostFacts(**FACTS))
    assert (findings.lacks, findings.notes, findings.status) == ([], [], 0)
    assert "Physical network rack1 is on bridge br0." in findings.fine


@pytest.mark.parametrize(
    ("facts", "sentence"),
    [
        ({"is_root": False}, "The agent needs root's rights, for NICs and namespaces: run it as root."),
        (
            {"programs": frozenset(PACKAGES) - {"nft", "dnsmasq"}},
            "There is no nft, dnsmasq: apt install --no-install-recommends dnsmasq-base nftables",
        ),
        ({"has_busybox": False}, "The built-in image needs busybox: apt install busybox-static"),
        ({"has_tun": False}, "/dev/net/tun cannot be opened: modprobe tun"),
        ({"has_account": False}, "QEMU has no account to run as: useradd --system --no-create-home roost-qemu"),
        (
            {"bridges": frozenset()},
            "There is no bridge br0 for physical network rack1: ip link add br0 type bridge",
        ),
        ({"state": Path("/", "x" * 60)}, f"--state /{'x' * 60} is too long: 55 characters are the most"),
        (
            {"asked": replace(ASKED, disks=Path("/srv/disks")), "has_disks": False},
            "There is no folder --disks /srv/disks: mount what the hosts share",
        ),
    ],
)
def test_each_lack_is_one_sentence(facts: dict[str, Any], sentence: str) -> None:
    asked = facts.pop("asked", ASKED)
    findings = judge_host(asked, HostFacts(**FACTS | facts))
    assert findings.lacks == [sentence]
    assert findings.status == 2


def test_an_image_that_was_packed_needs_no_busybox() -> None:
    assert judge_host(ASKED, HostFacts(**FACTS | {"has_busybox": False, "image_is_cached": True})).status == 0


def test_what_is_slow_or_without_a_network_is_told() -> None:
    slow = judge_host(ASKED, HostFacts(**FACTS | {"accel": "tcg"}))
    assert slow.notes == ["No guest boots under KVM here: guests run under TCG, many times slower."]
    assert slow.status == 1
    alone = HostAsked(bridges={}, accel="tcg", cpu=None, migrate_listen="")
    assert judge_host(alone, HostFacts(**FACTS | {"accel": "tcg"})).notes == [
        "No --bridge was said: only guests without NICs can be here."
    ]


def test_a_folder_whose_files_are_roots_alone_is_told() -> None:
    lack = "QEMU's account for its owner: Operation not permitted"
    findings = judge_host(replace(ASKED, disks=Path("/srv/disks")), HostFacts(**FACTS, has_disks=True, disks_lack=lack))
    assert findings.notes == [f"No disk can have, in --disks /srv/disks, {lack}. NFS needs no_root_squash."]
    assert findings.status == 1


@pytest.mark.parametrize("words", [["rack1"], ["=br0"], ["rack1="], ["a=b", "a=c"], ["a=" + "b" * 16], ["a=../b"]])
def test_a_bridge_that_is_none_is_refused(words: list[str]) -> None:
    with pytest.raises(BadRequest, match=f"--bridge {words[-1]}: expected PHYSNET=BRIDGE"):
        read_bridges(words)


def test_a_name_may_have_an_equals_sign_in_its_bridge_alone_once() -> None:
    assert read_bridges(["rack1=br0", "rack2=br1"]) == {"rack1": "br0", "rack2": "br1"}
    assert read_bridges(None) == {}


OPTIONS: dict[str, Any] = {
    **{"accel": "auto", "cpu": None, "bridge": ["rack1=br0"], "migrate_listen": None, "api": "http://127.0.0.1:1"},
    "account": "roost-qemu",
    **{"fleet": None, "host": ["h1"], "physical_network": None},
    **{"reserve_cpus": 10**6, "reserve_memory": 0, "reserve_disk": 0, "disks": None},
    **{"ca_file": None, "cert": None, "key": None},
}


def test_this_machine_is_the_host() -> None:
    assert read_host(OPTIONS).migrate_listen == "127.0.0.1"
    machine = read_machine(OPTIONS, Path("agent/h1"))
    assert machine.vcpus == 1, "what is reserved is gone, but for one"
    assert machine.ram_mb > 100
    assert machine.physical_networks == ("rack1",)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ({"fleet": "all"}, "--driver qemu serves one host, this machine"),
        ({"host": ["a", "b"]}, "--driver qemu serves one host, this machine"),
        ({"physical_network": ["rack1"]}, "--driver qemu reaches those of --bridge"),
    ],
)
def test_only_one_host_is_this_machine(words: dict[str, Any], sentence: str) -> None:
    with pytest.raises(BadRequest, match=sentence):
        read_machine(OPTIONS | words, Path("agent"))


@pytest.mark.parametrize("read", [read_host, lambda words: read_machine(words, Path("agent"))])
def test_a_folder_of_disks_whose_server_is_away_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, read: Callable[[dict[str, Any]], Any]
) -> None:
    is_back, exists = threading.Event(), Path.exists
    monkeypatch.setattr("roost.cli.qemu_options.FOLDER_S", 0.05)
    monkeypatch.setattr(Path, "exists", lambda path: (path == tmp_path and is_back.wait(10)) or exists(path))
    with pytest.raises(BadRequest, match=f"--disks {tmp_path}: it does not answer within 0 s; is its server away?"):
        read(OPTIONS | {"disks": tmp_path})
    is_back.set()
    read(OPTIONS | {"disks": tmp_path})


@pytest.mark.parametrize(
    ("address", "is_one"),
    [
        ("192.0.2.10", True),
        ("rack1-h1:4444", True),
        ("[2001:db8::1]", True),
        ("[2001:db8::1]:4444", True),
        ("2001:db8::1", False),
        ("", False),
        ("a:b", False),
    ],
)
def test_where_memory_is_awaited_is_an_address(address: str, is_one: bool) -> None:
    words = OPTIONS | {"migrate_listen": address}
    if is_one:
        assert read_host(words).migrate_listen == address
    else:
        with pytest.raises(BadRequest, match=r"--migrate-listen .*: expected an address such as"):
            read_host(words)


def test_an_accelerator_that_is_none_is_refused() -> None:
    with pytest.raises(BadRequest, match="--accel xen: expected auto, kvm, tcg"):
        read_host(OPTIONS | {"accel": "xen"})


@pytest.mark.parametrize(
    ("name", "is_one"),
    [("roost-qemu", True), ("60902", True), ("root", False), ("0", False), ("", False), ("-x", False), ("a:b", False)],
)
def test_qemu_runs_as_whom_it_is_told_but_not_as_root(name: str, is_one: bool) -> None:
    if is_one:
        assert read_host(OPTIONS | {"account": name}).account == name
    else:
        with pytest.raises(BadRequest, match=f"--account {name}: expected an account's name, or its number above 0"):
            read_host(OPTIONS | {"account": name})


def test_an_account_that_is_a_number_is_always_there() -> None:
    account = find_account("60902")
    assert account is not None
    assert (account.uid, account.gid) == (60902, 60902)
    assert find_account("no-such-account") is None


def test_agents_meet_under_tls_where_they_have_all_that_it_takes(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    cert, key = authority.sign("host")
    files = {"ca_file": authority.cert, "cert": Path(cert), "key": Path(key)}
    assert read_host(OPTIONS | files).tls is not None
    assert read_host(OPTIONS | files | {"ca_file": None}).tls is None
    with pytest.raises(BadRequest, match=r"--key .*: it is not the key of --cert"):
        read_host(OPTIONS | files | {"key": Path(authority.sign("another")[1])})
