"""What each fixture of the gabbi files promises: providers, inventories and allocations, made over the REST API.

The state each of them builds was read back and compared with that of the reference's own fixture.
"""

from collections.abc import Callable

from tests.conformance.states import State

SHARING = "MISC_SHARES_VIA_AGGREGATE"
NAMES = (
    *("RP_UUID", "RP_NAME", "RP_UUID1", "RP_NAME1", "RP_UUID2", "RP_NAME2", "PROJECT_ID", "PROJECT_ID_ALT"),
    *("ADMIN_PROJECT_ID", "SERVICE_PROJECT_ID", "USER_ID", "USER_ID_ALT", "INSTANCE_UUID", "MIGRATION_UUID"),
    *("CONSUMER_UUID", "PARENT_PROVIDER_UUID", "ALT_PARENT_PROVIDER_UUID"),
)
"""Names and uuids that the tests of every file may use."""


def empty(state: State) -> None:
    """No providers at all; only names and uuids for the tests to use."""
    for variable in NAMES:
        state.new_uuid(variable)
    state.environ["CUSTOM_RES_CLASS"] = "CUSTOM_IRON_NFV"
    state.environ["CUSTOM_RES_CLASS1"] = "CUSTOM_IRON_NFV1"
    state.environ["CUSTOM_RES_CLASS2"] = "CUSTOM_IRON_NFV2"


def allocations(state: State) -> None:
    """One provider of disk and CPU, used by three consumers.

    Two of them belong to one user, the third to another user of the same project. The two inventories and three
    allocations leave the provider at generation 5, which the tests spell out.
    """
    empty(state)
    project = state.environ["PROJECT_ID"]
    user = state.environ["USER_ID"]
    other_user = state.new_uuid("ALT_USER_ID")
    provider = state.environ["RP_UUID"]

    state.provider(
        state.environ["RP_NAME"],
        provider_uuid=provider,
        inventories={
            "DISK_GB": {"total": 2048, "step_size": 10, "min_unit": 10, "max_unit": 1000},
            "VCPU": 10,
        },
    )
    state.consumer(provider, {"DISK_GB": 1000}, project, user, "CONSUMER_0")
    state.consumer(provider, {"VCPU": 6}, project, user, "CONSUMER_ID")
    state.consumer(provider, {"DISK_GB": 20, "VCPU": 1}, project, other_user, "ALT_CONSUMER_ID")
    state.new_uuid("ALT_RP_UUID")  # a provider for the tests to create
    state.new_uuid("ALT_RP_NAME")


def shared_storage(state: State) -> None:
    """Two hosts and two shared disks in one aggregate; one host has its own.

    Each host has two NUMA nodes without inventory, each of them the parent of a network device with virtual functions.
    """
    empty(state)
    aggregate = state.new_uuid("AGG_UUID")
    compute = {
        "VCPU": {"total": 24, "allocation_ratio": 16.0},
        "MEMORY_MB": {"total": 128 * 1024, "allocation_ratio": 1.5},
    }
    disk = {"DISK_GB": {"total": 2000, "reserved": 100}}

    hosts = [
        state.provider(
            "cn1", "CN1_UUID", aggregates=[aggregate], inventories=compute, traits=["HW_CPU_X86_SSE", "HW_CPU_X86_SSE2"]
        ),
        state.provider("cn2", "CN2_UUID", aggregates=[aggregate], inventories={**compute, **disk}),
    ]
    for name, variable in (("ss", "SS_UUID"), ("ss2", "SS2_UUID")):
        state.provider(name, variable, aggregates=[aggregate], inventories=disk, traits=[SHARING])
    nodes = [
        (place, state.provider(f"numa{place}", f"NUMA{place}_UUID", parent=hosts[int(place[0]) - 1]))
        for place in ("1_1", "1_2", "2_1", "2_2")
    ]
    for place, node in nodes:
        state.provider(f"pf{place}", f"PF{place}_UUID", parent=node, inventories={"SRIOV_NET_VF": 8})


def numa_aggregates(state: State) -> None:
    """Two hosts whose NUMA nodes have the CPUs, and two shared disks.

    The first disk is in an aggregate with both hosts, the second in another one with a single NUMA node of the first.
    """
    empty(state)
    agg_a = state.new_uuid("AGGA_UUID")
    agg_b = state.new_uuid("AGGB_UUID")
    agg_c = state.new_uuid("AGGC_UUID")
    cpus = {"VCPU": {"total": 24, "allocation_ratio": 16.0}}
    disk = {"DISK_GB": {"total": 2000, "reserved": 100}}

    cn1 = state.provider("cn1", "CN1_UUID", aggregates=[agg_a])
    cn2 = state.provider("cn2", "CN2_UUID", aggregates=[agg_a, agg_b])
    state.provider("ss1", "SS1_UUID", aggregates=[agg_a], inventories=disk, traits=[SHARING])
    state.provider("ss2", "SS2_UUID", aggregates=[agg_c], inventories=disk, traits=[SHARING])
    state.provider("numa1_1", "NUMA1_1_UUID", parent=cn1, aggregates=[agg_c], inventories=cpus)
    state.provider("numa1_2", "NUMA1_2_UUID", parent=cn1, inventories=cpus)
    state.provider("numa2_1", "NUMA2_1_UUID", parent=cn2, inventories=cpus)
    state.provider("numa2_2", "NUMA2_2_UUID", parent=cn2, inventories=cpus)


def numa_network(state: State) -> None:
    """A host with NUMA nodes, accelerators and network devices; a plain one.

    Both hosts share a disk through one aggregate. A few CPUs of each are in use already.
    """
    empty(state)
    _numa_network(state)


def deep_numa_network(state: State) -> None:
    """The NUMA network, its hosts two levels below one common ancestor."""
    empty(state)
    ancestor = state.provider("gp1")
    parent1 = state.provider("p1", parent=ancestor)
    parent2 = state.provider("p2", parent=ancestor)
    _numa_network(
        state,
        cn1=state.provider("cn1", "CN1_UUID", parent=parent1),
        cn2=state.provider("cn2", "CN2_UUID", parent=parent2),
    )


def _numa_network(state: State, cn1: str | None = None, cn2: str | None = None) -> None:
    aggregate = state.new_uuid("AGGA_UUID")
    project, user = "numafx-project", "numafx-user"

    state.provider("ss1", "SS1_UUID", aggregates=[aggregate], inventories={"DISK_GB": 2000}, traits=[SHARING])

    cn1 = cn1 or state.provider("cn1", "CN1_UUID")
    state.join(cn1, aggregate)
    state.furnish(cn1, traits=["COMPUTE_VOLUME_MULTI_ATTACH"])

    numa0 = state.provider(
        "numa0",
        "NUMA0_UUID",
        parent=cn1,
        traits=["HW_NUMA_ROOT"],
        inventories={"VCPU": 4, "MEMORY_MB": {"total": 2048, "min_unit": 512, "step_size": 256}},
    )
    numa1 = state.provider(
        "numa1",
        "NUMA1_UUID",
        parent=cn1,
        traits=["HW_NUMA_ROOT", "CUSTOM_FOO"],
        inventories={"VCPU": 4, "MEMORY_MB": {"total": 2048, "min_unit": 256, "max_unit": 1024}},
    )
    state.consumer(numa0, {"VCPU": 2}, project, user)
    state.provider("fpga0", "FPGA0_UUID", parent=numa0, inventories={"FPGA": 1})
    state.provider("pgpu0", "PGPU0_UUID", parent=numa0, inventories={"VGPU": 8})
    for place in ("1_0", "1_1"):
        state.provider(f"fpga{place}", f"FPGA{place}_UUID", parent=numa1, inventories={"FPGA": 1})

    sriov_agent = state.provider("sriov_agent", "SRIOV_AGENT_UUID", parent=cn1, traits=["CUSTOM_VNIC_TYPE_DIRECT"])
    for number in (1, 2):
        state.provider(
            f"esn{number}",
            f"ESN{number}_UUID",
            parent=sriov_agent,
            inventories={"NET_BW_EGR_KILOBIT_PER_SEC": 10000 * number},
            traits=[f"CUSTOM_PHYSNET{number}"],
        )
    ovs_agent = state.provider("ovs_agent", "OVS_AGENT_UUID", parent=cn1, traits=["CUSTOM_VNIC_TYPE_NORMAL"])
    state.provider(
        "br_int",
        "BR_INT_UUID",
        parent=ovs_agent,
        inventories={"NET_BW_EGR_KILOBIT_PER_SEC": 1000},
        traits=["CUSTOM_PHYSNET0"],
    )

    cn2 = cn2 or state.provider("cn2", "CN2_UUID")
    state.join(cn2, aggregate)
    state.furnish(
        cn2,
        traits=["CUSTOM_FOO"],
        inventories={"VCPU": 8, "MEMORY_MB": {"total": 2048, "min_unit": 1024, "step_size": 128}, "DISK_GB": 1000},
    )
    state.consumer(cn2, {"VCPU": 3}, project, user)

    nics = {
        number: state.provider(f"nic{number}", f"NIC{number}_UUID", parent=cn2, traits=["CUSTOM_HW_NIC_ROOT"])
        for number in "123"
    }
    for place, functions, network in (
        ("1_1", 4, 1),
        ("1_2", 4, 2),
        ("2_1", 2, 1),
        ("2_2", 2, 2),
        ("2_3", 2, 1),
        ("2_4", 2, 2),
        ("3_1", 8, 1),
    ):
        state.provider(
            f"pf{place}",
            f"PF{place}_UUID",
            parent=nics[place[0]],
            inventories={"CUSTOM_VF": functions},
            traits=[f"CUSTOM_PHYSNET{network}"],
        )


def local_storage(state: State) -> None:
    """Three equal hosts with a disk of their own, and no aggregates yet."""
    empty(state)
    for variable in ("AGGA_UUID", "AGGB_UUID", "AGGC_UUID"):
        state.new_uuid(variable)
    for number in (1, 2, 3):
        state.provider(
            f"cn{number}", f"CN{number}_UUID", inventories={"VCPU": 24, "MEMORY_MB": 128 * 1024, "DISK_GB": 2000}
        )


def granular(state: State) -> None:
    """Three hosts, two shared disks and a shared network in three aggregates.

    Aggregate A joins the left and middle hosts and both disks, B the middle and right hosts and the second disk, C the
    right host and the network.
    """
    empty(state)
    agg_a = state.new_uuid("AGGA")
    agg_b = state.new_uuid("AGGB")
    agg_c = state.new_uuid("AGGC")
    compute = {"VCPU": 8, "MEMORY_MB": 4096}

    state.provider(
        "cn_left",
        "CN_LEFT",
        aggregates=[agg_a],
        inventories=dict(compute, DISK_GB=500, VGPU=8, SRIOV_NET_VF=8, CUSTOM_NET_MBPS=4000),
        traits=["HW_CPU_X86_AVX", "HW_CPU_X86_AVX2", "HW_GPU_API_DXVA", "HW_NIC_DCB_PFC", "CUSTOM_FOO"],
    )
    state.provider(
        "cn_middle",
        "CN_MIDDLE",
        aggregates=[agg_a, agg_b],
        inventories=dict(compute, SRIOV_NET_VF=8, CUSTOM_NET_MBPS=4000),
        traits=["HW_CPU_X86_AVX", "HW_CPU_X86_AVX2", "HW_CPU_X86_SSE", "HW_NIC_ACCEL_TLS"],
    )
    state.provider(
        "cn_right",
        "CN_RIGHT",
        aggregates=[agg_b, agg_c],
        inventories=dict(compute, DISK_GB=500, VGPU={"total": 8, "max_unit": 2}),
        traits=["HW_CPU_X86_MMX", "HW_GPU_API_DXVA", "CUSTOM_DISK_SSD"],
    )
    state.provider(
        "shr_disk_1",
        "SHR_DISK_1",
        aggregates=[agg_a],
        inventories={"DISK_GB": 1000},
        traits=[SHARING, "CUSTOM_DISK_SSD"],
    )
    state.provider(
        "shr_disk_2", "SHR_DISK_2", aggregates=[agg_a, agg_b], inventories={"DISK_GB": 1000}, traits=[SHARING]
    )
    state.provider(
        "shr_net",
        "SHR_NET",
        aggregates=[agg_c],
        inventories={"SRIOV_NET_VF": 16, "CUSTOM_NET_MBPS": 40000},
        traits=[SHARING],
    )


def qos_networks(state: State) -> None:
    """Four hosts with OVS and SR-IOV devices, on different physical networks.

    The first host is on a network of no interest, the second and third on one segment each, and the fourth, with little
    bandwidth, on both segments.
    """
    empty(state)
    normal = ["CUSTOM_VNIC_TYPE_NORMAL"]
    direct = ["CUSTOM_VNIC_TYPE_DIRECT", "CUSTOM_VNIC_TYPE_DIRECT_PHYSICAL", "CUSTOM_VNIC_TYPE_MACVTAP"]

    def device(name: str, variable: str, parent: str, kind: list[str], network: str, bandwidth: int) -> None:
        state.provider(
            name,
            variable,
            parent=parent,
            inventories={"NET_BW_EGR_KILOBIT_PER_SEC": bandwidth, "NET_BW_IGR_KILOBIT_PER_SEC": bandwidth},
            traits=[*kind, f"CUSTOM_PHYSNET_{network}"],
        )

    for host, networks, bridge_bandwidth, card_bandwidth in (
        ("compute0", ["OTHER"], 5000, 10000),
        ("compute1", ["MSN_S1"], 5000, 10000),
        ("compute2", ["MSN_S2"], 5000, 10000),
        ("compute3", ["MSN_S1", "MSN_S2"], 1000, 1000),
    ):
        root = state.provider(host, host, inventories={"VCPU": 8, "MEMORY_MB": 4096, "DISK_GB": 500})

        name = f"{host}:Open vSwitch agent"
        agent = state.provider(
            name,
            f"{host}:ovs_agent",
            parent=root,
            traits=normal,
            inventories={"NET_PACKET_RATE_KILOPACKET_PER_SEC": 1000},
        )
        for network, bridge in zip(networks, ("br-ex", "br-ex2"), strict=False):
            device(
                f"{name}:{bridge}",
                f"{host}:{bridge.replace('-', '_')}",
                agent,
                normal,
                network,
                bridge_bandwidth,
            )

        name = f"{host}:NIC Switch agent"
        agent = state.provider(name, f"{host}:sriov_agent", parent=root, traits=direct)
        for number, network in enumerate(networks):
            device(f"{name}:enp129s0f{number}", f"{host}:pf{number}", agent, direct, network, card_bandwidth)


FIXTURES: dict[str, tuple[str, Callable[[State], None]]] = {
    "APIFixture": ("default", empty),
    "AllocationFixture": ("default", allocations),
    "SharedStorageFixture": ("default", shared_storage),
    "NUMAAggregateFixture": ("default", numa_aggregates),
    "NUMANetworkFixture": ("default", numa_network),
    "DeepNUMANetworkFixture": ("default", deep_numa_network),
    "NonSharedStorageFixture": ("default", local_storage),
    "GranularFixture": ("default", granular),
    "NeutronQoSMultiSegmentFixture": ("default", qos_networks),
    "CORSFixture": ("cors", empty),
    "OpenPolicyFixture": ("open", empty),
    "LegacyRBACPolicyFixture": ("legacy-rbac", empty),
    "SecureRBACPolicyFixture": ("secure-rbac", empty),
}
"""Fixture in the gabbi files -> the policy mode that the server must be in, and the function that builds its state."""
