"""The links of a host, with programs that note what they are told: one that fails keeps no other from being right."""

import os
from pathlib import Path

import pytest
from structlog.testing import capture_logs
from tests.agent.qemu.orders import make_network, make_order, make_port

from roost.agent.drivers.programs import ProgramFailed
from roost.agent.drivers.qemu import host_network
from roost.agent.drivers.qemu.dhcp import Dhcp
from roost.agent.drivers.qemu.host_network import HostNetwork
from roost.agent.drivers.qemu.nics import NicPlan, hash_of, plan_nics, tap_command
from roost.seams.guests import NicSegment

BRIDGES = {"rack1": "br0", "rack2": "br1"}


def nic_on(network: str, segment: NicSegment | None = None) -> NicPlan:
    segment = segment or NicSegment(id=network, network_type="flat", physical_network=network)
    order = make_order(ports=(make_port(f"{network:x<12}"),), networks=(make_network(segment=segment),))
    return plan_nics(order, BRIDGES)[0]


IP = r"""
tee now >>heard
grep -nFf refused now >failed || exit 0
sed 's/\([0-9]*\):.*/Cannot find device\nCommand failed -:\1/' failed >&2
exit 1
"""
NIC, OTHER = nic_on("rack1"), nic_on("rack2")


class Scene:
    """A host whose ip does all but what it is told to refuse."""

    def __init__(self, folder: Path) -> None:
        self.heard, self.refused = folder / "heard", folder / "refused"
        self.refused.write_text("")
        self.nics = [(NIC, True), (OTHER, False)]
        self.present = ["br0", "br1", *(link for nic in (NIC, OTHER) for link in (nic.tap, nic.segment.interface))]
        self.network = HostNetwork(folder, lambda: self.nics, kernel_is_new=False)

    def refuse(self, text: str) -> None:
        self.refused.write_text(text)

    def said(self) -> list[str]:
        """Return what ip was told since this was asked last."""
        lines = self.heard.read_text().splitlines() if self.heard.exists() else []
        self.heard.unlink(missing_ok=True)
        return lines


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scene:
    scene = Scene(tmp_path)
    programs = {
        "nft": "cat >/dev/null",
        "ip": f"cd {tmp_path}\n{IP}",
    }
    (tmp_path / "programs").mkdir()
    for name, words in programs.items():
        path = tmp_path / "programs" / name
        path.write_text(f"#!/bin/sh\n{words}\n")
        path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'programs'}:{os.environ['PATH']}")
    monkeypatch.setattr(host_network.os, "listdir", lambda _path: scene.present)

    async def serve(_self: Dhcp, _key: str, _nics: object) -> None:
        """Be there."""

    monkeypatch.setattr(Dhcp, "_serve", serve)
    return scene


async def test_all_that_is_plugged_is_plugged_again_each_time(scene: Scene) -> None:
    """Bridges may be new ones; a cable that could not be plugged is so by the next try."""
    for _ in range(2):
        await scene.network.apply()
        said = scene.said()
        assert tap_command(NIC, up=True) in said
        assert tap_command(OTHER, up=False) in said
        assert [line.split()[2] for line in said[:2]] == [NIC.segment.interface, OTHER.segment.interface]


async def test_a_nic_that_cannot_be_plugged_is_raised_for_whom_it_is_needed_and_logged_for_others(scene: Scene) -> None:
    scene.refuse(OTHER.tap)
    with capture_logs() as logs:
        await scene.network.apply([NIC])
        await scene.network.apply()
    assert [line["event"] for line in logs] == ["the host's links are not all as they should be"] * 2
    with pytest.raises(ProgramFailed) as caught:
        await scene.network.apply([OTHER])
    assert str(caught.value) == f"ip {tap_command(OTHER, up=False)}: Cannot find device"


async def test_a_vlan_that_is_left_goes_before_another_has_its_tag(scene: Scene) -> None:
    """And the other is whole before anything is plugged into it, all at once."""
    segment = NicSegment(id="new", network_type="vlan", physical_network="rack1", segmentation_id=101)
    nic = nic_on("vlan", segment)
    left = [f"r{kind}{hash_of('gone')}" for kind in "bl"]
    scene.nics = [(nic, True)]
    scene.present = ["br0", *left, nic.tap, nic.segment.interface]
    await scene.network.apply([nic])
    said = scene.said()
    assert [line.split(" mtu ")[0] for line in said[:-2]] == [
        *(f"link delete {name}" for name in left),
        f"link add {nic.segment.bridge} type bridge",
        f"link add link br0 name {nic.segment.tagged} type vlan id 101",
        f"link set {nic.segment.tagged}",
        f"link set {nic.segment.tagged} up",
        f"link set {nic.segment.bridge} up",
    ]
    assert [line.split()[2] for line in said[-2:]] == [nic.segment.interface, nic.tap]
