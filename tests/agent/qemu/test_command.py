"""Command lines of QEMU."""

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace as replace_struct
from tests.agent.qemu.orders import PORT_ID, SERVER_ID, make_network, make_order, make_port

from roost.agent.drivers.qemu.command import (
    NICS_SPARE,
    Account,
    GuestFiles,
    Machine,
    Plug,
    account_command,
    find_misfit,
    find_versioned,
    guest_command,
    nic_device,
    plan_plugs,
)
from roost.agent.drivers.qemu.nics import plan_nics
from roost.seams.agent import GuestOrder

TCG = Machine(accel="tcg", type="pc-q35-7.2", cpu="qemu64", cpu_name="qemu64")
FILES = GuestFiles(Path("/state/guests/x"), Path("/state/disks/x.h1.qcow2"))
HELP = """Supported machines are:
pc                   Standard PC (i440FX + PIIX, 1996) (alias of pc-i440fx-7.2)
q35                  Standard PC (Q35 + ICH9, 2009) (alias of pc-q35-7.2)
pc-q35-7.2           Standard PC (Q35 + ICH9, 2009)
pc-q35-7.1           Standard PC (Q35 + ICH9, 2009)
"""


def _command(order: GuestOrder, **other: Any) -> list[str]:
    plugs = plan_plugs(plan_nics(order, {"rack1": "br0"}))
    nics = [(plug, 20 + number) for number, plug in enumerate(plugs)]
    parts: dict[str, Any] = {"machine": TCG, "files": FILES, "kernel": Path("/k"), "initrd": Path("/i"), "nics": nics}
    return guest_command(order, **{"account": Account(uid=995, gid=994)} | parts | other)


def _value(command: list[str], option: str, number: int = 0) -> str:
    return [command[index + 1] for index, word in enumerate(command) if word == option][number]


def test_a_guest_is_what_its_order_says() -> None:
    command = _command(make_order(vcpus=2, ram_mb=256))
    assert command[command.index("--") + 1] == "qemu-system-x86_64"
    assert _value(command, "-uuid") == SERVER_ID
    assert _value(command, "-smp") == "2"
    assert _value(command, "-m") == "256M"
    assert _value(command, "-machine") == "pc-q35-7.2"
    assert _value(command, "-accel") == "tcg,tb-size=32"
    assert _value(command, "-append").endswith(" hostname=web")
    assert "-S" in command, "nothing runs before its NICs are to be up"
    assert "-incoming" not in command


def test_every_nic_is_an_open_file_and_a_device_without_a_boot_rom() -> None:
    ports = (make_port(), make_port(port_id=PORT_ID.replace("0a1b", "1a1b"), mac="52:54:00:00:00:03"))
    command = _command(make_order(ports=ports, networks=(make_network(mtu=1450), make_network())))
    assert _value(command, "-netdev") == "tap,id=rt0a1b2c3d4e5f,fd=20"
    assert _value(command, "-netdev", 1) == "tap,id=rt1a1b2c3d4e5f,fd=21"
    device = "virtio-net-pci,id=dev-rt0a1b2c3d4e5f,netdev=rt0a1b2c3d4e5f,mac=52:54:00:00:00:02"
    assert f"{device},host_mtu=1450,romfile=,bus=port0" in command
    assert sum(word.startswith("pcie-root-port") for word in command) == NICS_SPARE


def _plug(name: str, slot: int, *, mac: str = "m", **other: Any) -> Plug:
    return Plug(tap=name, mac=mac, mtu=1500, slot=slot, **other)


@pytest.mark.parametrize(
    ("names", "before", "slots"),
    [
        ("abc", [], [0, 1, 2]),
        ("bc", [_plug("a", 0), _plug("b", 1), _plug("c", 2)], [1, 2]),  # who stays keeps its slot
        ("bd", [_plug("b", 1), _plug("c", 2)], [1, 0]),
        ("d", [_plug("a", 0, dead=True)], [1]),  # which the guest has not let go
        ("a", [_plug("a", 0, dead=True)], [1]),
        ("a", [_plug("a", 3, mac="o")], [0]),
        ("", [_plug("a", 0)], []),
    ],
)
def test_nics_keep_their_slots_and_others_take_free_ones(names: str, before: list[Plug], slots: list[int]) -> None:
    (one,) = plan_nics(make_order(), {"rack1": "br0"})
    nics = [replace_struct(one, tap=name, mac="m") for name in names]
    assert [(plug.tap, plug.slot) for plug in plan_plugs(nics, before)] == list(zip(names, slots, strict=True))


def test_a_nic_without_a_slot_is_behind_no_port() -> None:
    assert "bus" in nic_device(_plug("a", NICS_SPARE - 1))
    assert "bus" not in nic_device(_plug("a", NICS_SPARE))


def test_a_disk_has_a_format_that_is_stated() -> None:
    assert "-blockdev" not in _command(make_order())
    disk = _value(_command(make_order(disk_gb=1)), "-blockdev")
    assert disk.startswith("driver=qcow2,node-name=disk,")
    assert disk.endswith("file.driver=file,file.filename=/state/disks/x.h1.qcow2")
    shared = GuestFiles(FILES.folder, FILES.disk, is_shared=True)
    disk = _value(_command(make_order(disk_gb=1), files=shared), "-blockdev")
    assert ",cache.direct=on," in disk, "what one host has in memory another would not see"
    odd = _command(make_order(disk_gb=1), files=GuestFiles(Path("/a,b"), Path("/a,b/disk.qcow2")))
    assert _value(odd, "-blockdev").endswith("file.filename=/a,,b/disk.qcow2")
    assert "path=/a,,b/run/qmp," in _value(odd, "-chardev", 1)


def test_qemu_is_in_a_sandbox_and_no_daemon_by_itself() -> None:
    command = _command(make_order())
    assert _value(command, "-sandbox") == "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny"
    assert "-daemonize" not in command
    assert _value(command, "-chardev") == "ringbuf,id=console,size=1048576"


@pytest.mark.parametrize(
    ("groups", "expected"),
    [((), ["--clear-groups"]), ((109,), ["--groups", "109"])],
)
def test_qemu_runs_as_its_account(groups: tuple[int, ...], expected: list[str]) -> None:
    account = Account(uid=995, gid=994, groups=groups)
    beginning = ["setpriv", "--reuid", "995", "--regid", "994", *expected, "--inh-caps=-all", "--no-new-privs", "--"]
    assert account_command(account) == beginning
    assert _command(make_order(), account=account)[: len(beginning) + 1] == [*beginning, "qemu-system-x86_64"]


def test_a_destination_waits_for_memory() -> None:
    assert _command(make_order("incoming"), waits_for_memory=True)[-2:] == ["-incoming", "defer"]


def test_a_server_without_cpus_has_one() -> None:
    assert _value(_command(replace_struct(make_order(), vcpus=0)), "-smp") == "1"


@pytest.mark.parametrize(("alias", "expected"), [("q35", "pc-q35-7.2"), ("microvm", None)])
def test_an_alias_stands_for_a_version(alias: str, expected: str | None) -> None:
    assert find_versioned(HELP, alias) == expected


@pytest.mark.parametrize(
    ("other", "reason"),
    [
        ({}, None),
        ({"type": "pc-q35-7.1"}, None),
        ({"type": "pc-q35-10.0"}, "it is a pc-q35-10.0, which this host's QEMU does not know"),
        ({"accel": "kvm"}, "it runs under kvm, and this host has tcg"),
        ({"cpu_name": "EPYC"}, "it has the CPU EPYC, and this host gives qemu64"),
    ],
)
def test_a_guest_that_would_not_fit_is_refused_beforehand(other: dict[str, str], reason: str | None) -> None:
    words = {"accel": "tcg", "type": "pc-q35-7.2", "cpu": "qemu64", "cpu_name": "qemu64"}
    assert find_misfit(Machine(**words | other), TCG, HELP) == reason
