"""The cloud that every server gets: hosts in segments with their addresses, and the questions asked of it.

Every UUID follows from an index, so the same size means the same cloud on any server, and no step has to list what an
earlier one made.
"""

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

NAMESPACE = uuid.UUID("5b0f1d2e-6c1f-4c55-9a7e-2f0a6d1c9e01")
HOSTS_PER_SEGMENT = 40

Inventories = Mapping[str, Mapping[str, float]]

HOST: Inventories = {
    "VCPU": {"total": 64, "allocation_ratio": 4.0},
    "MEMORY_MB": {"total": 262144},
    "DISK_GB": {"total": 2000},
}
SEGMENT: Inventories = {"IPV4_ADDRESS": {"total": 254, "reserved": 2, "max_unit": 1}}
DEVICE: Inventories = {"PGPU": {"total": 8}}

HOST_TRAITS = ("COMPUTE_VOLUME_MULTI_ATTACH", "HW_CPU_X86_AVX2", "HW_CPU_X86_SSE42")
HALF_TRAIT = "STORAGE_DISK_SSD"
"""Half of the hosts of every segment have this one besides."""
SHARING_TRAIT = "MISC_SHARES_VIA_AGGREGATE"

FLAVOR = {"VCPU": 1, "MEMORY_MB": 512, "DISK_GB": 10}
ADDRESS = {"IPV4_ADDRESS": 1}

DEVICES, DEVICE_GROUPS = 8, 6
"""Of the one host with devices: 8 alike, and 6 groups that each ask for one."""


@dataclass(frozen=True)
class Provider:
    """One resource provider with all that it has."""

    uuid: str
    name: str
    inventories: Inventories
    aggregates: Sequence[str] = ()
    traits: Sequence[str] = ()
    parent: str | None = None


@dataclass(frozen=True)
class Cloud:
    """`hosts` hosts in `segments` routed-network segments; host i is in segment i % segments."""

    hosts: int

    @property
    def segments(self) -> int:
        """Forty hosts each."""
        return max(1, self.hosts // HOSTS_PER_SEGMENT)

    def uuid(self, kind: str, index: int) -> str:
        """The same in every run."""
        return str(uuid.uuid5(NAMESPACE, f"0/{kind}/{index}"))

    def host(self, index: int) -> Provider:
        """One hypervisor."""
        segment = index % self.segments
        half = (HALF_TRAIT,) if index // self.segments % 2 else ()
        return Provider(
            self.uuid("host", index), f"host-{index:05}", HOST, (self.uuid("aggregate", segment),), HOST_TRAITS + half
        )

    def segment(self, index: int) -> Provider:
        """The sharing provider of one segment's addresses."""
        aggregates = (self.uuid("aggregate", index),)
        return Provider(self.uuid("segment", index), f"segment-{index:05}", SEGMENT, aggregates, (SHARING_TRAIT,))

    def providers(self) -> list[Provider]:
        """All of them, segments first: their aggregates then exist before the hosts race to join them."""
        return [
            *(self.segment(index) for index in range(self.segments)),
            *(self.host(index) for index in range(self.hosts)),
        ]

    def device_host(self) -> list[Provider]:
        """One more host, parent first, with DEVICES devices that are all alike."""
        host = Provider(self.uuid("device-host", 0), "device-host", HOST)
        return [
            host,
            *(
                Provider(self.uuid("device", index), f"device-{index}", DEVICE, parent=host.uuid)
                for index in range(DEVICES)
            ),
        ]

    def homes(self) -> dict[str, int]:
        """Provider -> its segment, hosts and segments alike."""
        homes = {self.uuid("host", index): index % self.segments for index in range(self.hosts)}
        return homes | {self.uuid("segment", index): index for index in range(self.segments)}

    def capacities(self) -> dict[str, dict[str, int]]:
        """Provider -> resource class -> how much of it can be taken."""
        hosts = [self.uuid("host", index) for index in range(self.hosts)]
        segments = [self.uuid("segment", index) for index in range(self.segments)]
        return dict.fromkeys(hosts, _capacities(HOST)) | dict.fromkeys(segments, _capacities(SEGMENT))

    def some_aggregates(self, count: int = 8) -> list[str]:
        """So many, spread evenly over all; fewer when there are fewer."""
        count = min(count, self.segments)
        return [self.uuid("aggregate", number * self.segments // count) for number in range(count)]


def _capacities(inventories: Inventories) -> dict[str, int]:
    return {
        name: int((one["total"] - one.get("reserved", 0)) * one.get("allocation_ratio", 1.0))
        for name, one in inventories.items()
    }


def queries(cloud: Cloud) -> dict[str, str]:
    """The questions by name. Nova's own limit is 1,000."""
    flavor, members = _resources(FLAVOR), "in:" + ",".join(cloud.some_aggregates())
    devices = "&".join(f"resources{number}=PGPU:1" for number in range(1, DEVICE_GROUPS + 1))
    asked = {
        "flat-1000": f"resources={flavor}&limit=1000",
        "flat-10": f"resources={flavor}&limit=10",
        "flat-all": f"resources={flavor}",
        # An address from a sharing provider; the second is what the claim loop sends.
        "shared-1000": f"resources={flavor},{_resources(ADDRESS)}&limit=1000",
        "shared-10": f"resources={flavor},{_resources(ADDRESS)}&limit=10",
        # The address in a group of its own, held to eight segments.
        "granular-1000": (
            f"resources={flavor}&resources1={_resources(ADDRESS)}&member_of1={members}&group_policy=none&limit=1000"
        ),
        # Flat, held to eight segments and to half of their hosts.
        "traits-1000": f"resources={flavor}&member_of={members}&required={HALF_TRAIT}&limit=1000",
        # What Nova asks for a server on a network of all segments.
        "implied-1000": f"resources={flavor}&member_of=in:{','.join(cloud.some_aggregates(cloud.segments))}&limit=1000",
        # Each device once: 8 * 7 * 6 * 5 * 4 * 3 ways; or any at all: 8 ** 6 ways.
        "devices-isolate": f"resources={flavor}&{devices}&group_policy=isolate&limit=1000",
        "devices-none": f"resources={flavor}&{devices}&group_policy=none&limit=1000",
    }
    return {name: f"/allocation_candidates?{query}" for name, query in asked.items()}


def _resources(amounts: Mapping[str, int]) -> str:
    return ",".join(f"{name}:{amount}" for name, amount in amounts.items())
