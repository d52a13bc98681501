"""Clients that know nothing of Roost: openstacksdk and `openstack`, as they are released, on a whole Roost.

How to point them at Roost is taken from docs/howto/openstack-clients.md, whose commands are run here too.
"""

import asyncio
import ipaddress
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from openstack import exceptions
from openstack.config import OpenStackConfig
from openstack.connection import Connection
from tests.clients.running import HOWTO, ROOT, run_openstack, write_clouds_file
from tests.cluster import Cluster, cluster, settle

FLAT_HOWTO = (ROOT / "docs" / "howto" / "flat-networks.md").read_text()
CLOUD = (ROOT / "examples" / "three-racks.yaml").read_text()
WAIT_S = 30
"""How long a client may wait for a server."""
POLL_S = 0.2

pytestmark = [
    # The sdk warns of its own future, in its own calls to itself: nothing that Roost or this test could change.
    pytest.mark.filterwarnings("ignore::openstack.warnings.RemovedInSDK50Warning"),
    pytest.mark.filterwarnings("ignore::openstack.warnings.RemovedInSDK60Warning"),
    # A hypervisor's vcpus and the like, which the Compute API has up to 2.87.
    pytest.mark.filterwarnings("ignore::openstack.warnings.RemovedFieldWarning"),
]

NOT_SERVED = (
    "openstack server rescue web",
    "openstack server image create web",
    "openstack server create --image any --flavor small --network public web",
    "openstack server create --volume any --flavor small --network public web",
    "openstack availability zone list",
    "openstack router list",
    "openstack security group list",
    "openstack keypair list",
    "openstack image list",
)
"""What a person may try and Roost does not do yet."""
NOT_SERVED_WORDS = (
    r"Roost does not serve it|is not allowed for this resource|is served as yet|Roost keeps no|no driver of Roost"
)


REFUSED = (
    ("openstack network create --pvlan lab", "pvlan: Roost does not serve it"),
    ("openstack network create --availability-zone-hint a lab", "availability_zone_hints: Roost does not serve it"),
    ("openstack network set --default public", "is_default: Roost does not serve it"),
    (
        "openstack network create --extra-property type=str,name=colour,value=red lab",
        "Unrecognized attribute(s) 'colour'",
    ),
    (
        "openstack subnet create --network public --use-default-subnet-pool lab",
        "use_default_subnetpool: Roost does not",
    ),
    (
        "openstack subnet create --network public --use-prefix-delegation --ip-version 6 lab",
        "subnetpool_id: Roost does",
    ),
    ("openstack subnet create --network public lab", "Roost has no subnet pools"),
    ("openstack subnet create --network public --subnet-range 10.0.0.0/24 --prefix-length 24 lab", "prefixlen: Roost"),
    ("openstack subnet create --network public --subnet-pool lab lab", "/subnetpools: Roost does not serve it"),
    ("openstack port create --network public --trusted lab", "trusted: Roost does not serve it"),
    ("openstack port create --network public --security-group default lab", "/security-groups: Roost does not serve"),
    ("openstack subnet pool list", "/subnetpools: Roost does not serve it"),
    ("openstack address scope list", "/address-scopes: Roost does not serve it"),
)
"""What a person may ask of networks and Roost does not do, and what says so."""


BOOT = "openstack server create --flavor small --network public --block-device boot_index=0"
COMPUTE_REFUSED = (
    (f"{BOOT} --availability-zone rack1 web", "zone is not available: rack1. There are: nova"),
    (f"{BOOT} --availability-zone nova:r9-h1 web", "Compute host r9-h1 could not be found"),
    (f"{BOOT} --host r9-h1 web", "Compute host r9-h1 could not be found"),
    (f"{BOOT} --hint group=11111111-1111-4111-8111-111111111111 web", "Instance group 11111111"),
    (f"{BOOT} --hint query=1 web", "Scheduler hint query=1: Roost does not serve it"),
    (f"{BOOT} --key-name mine web", "Invalid key_name provided"),
    (f"{BOOT} --use-config-drive web", "config_drive: Roost does not serve it"),
    (f"{BOOT} --swap 512 web", "Block Device Mapping is Invalid"),
    (f"{BOOT} --ephemeral size=1 web", "Block Device Mapping is Invalid"),
    ("openstack server list --deleted", "deleted: Roost keeps no such servers"),
    ("openstack server list --key-name mine", "key_name: Roost does not serve this parameter"),
    ("openstack server list --changes-since 2026-01-01T00:00:00Z", "changes-since: Roost does not serve"),
)
"""What a person may ask of Compute and Roost does not do, and what says so."""

REPEATED_MAX = 10
"""How often a command is given again of which the answer says that the request is to be repeated."""


@pytest.fixture(scope="module")
def roost() -> Iterator[Cluster]:
    """Three racks with agents, and no servers."""
    with cluster() as made:
        made.serve("all")
        made.load(CLOUD)
        made.agent()
        yield made


@pytest.fixture(scope="module")
def clouds_file(roost: Cluster) -> Path:
    """The how-to's clouds.yaml, with this cluster's address."""
    return write_clouds_file(roost)


@pytest.fixture
def cloud(clouds_file: Path) -> Iterator[Connection]:
    """A connection of openstacksdk."""
    config = OpenStackConfig(config_files=[str(clouds_file)], load_envvars=False)
    with Connection(config=config.get_one("roost")) as opened:
        yield opened


def test_openstacksdk_drives_the_whole_story(roost: Cluster, cloud: Connection) -> None:
    """Networks, boots by network and by port, addresses, claims, deletes; then everything agrees."""
    network, flavor = _make_network(cloud, "sdk"), cloud.compute.create_flavor(name="sdk", ram=512, vcpus=1, disk=1)
    rack2 = next(cloud.network.segments(network_id=network.id, name="rack2"))
    subnet = next(cloud.network.subnets(segment_id=rack2.id))
    port = cloud.network.create_port(network_id=network.id, name="kept", fixed_ips=[{"subnet_id": subnet.id}])
    assert [one.id for one in cloud.network.ports(network_id=network.id, name="kept")] == [port.id]

    roaming = cloud.compute.create_server(name="roaming", flavor_id=flavor.id, networks=[{"uuid": network.id}])
    pinned = cloud.compute.create_server(name="pinned", flavor_id=flavor.id, networks=[{"port": port.id}])
    roaming, pinned = (cloud.compute.wait_for_server(one, interval=POLL_S, wait=WAIT_S) for one in (roaming, pinned))
    assert _rack_of(_address(pinned)) == "r2"
    assert {one.name: one.compute_host[:2] for one in cloud.compute.servers(details=True, all_projects=True)} == {
        one.name: _rack_of(_address(one)) for one in (roaming, pinned)
    }
    assert cloud.compute.find_server("pinned", ignore_missing=False).id == pinned.id
    assert cloud.network.get_port(port.id).device_id == pinned.id

    _check_placement(cloud, rack2.id, pinned)
    counts = cloud.network.get_network_ip_availability(network.id)
    assert (counts.network_name, counts.total_ips, counts.used_ips) == ("sdk", 10, 2)
    assert counts.ip_availability_details["free_ips_in_allocation_pool"] == 8
    assert [one.network_id for one in cloud.network.network_ip_availabilities(network_name="sdk")] == [network.id]
    for server in (roaming, pinned):
        cloud.compute.delete_server(server)
        cloud.compute.wait_for_delete(server, interval=POLL_S, wait=WAIT_S)
    assert [one.fixed_ips for one in cloud.network.ports(network_id=network.id)] == [port.fixed_ips]
    with pytest.raises(exceptions.ConflictException):
        cloud.network.delete_network(network)
    cloud.network.delete_port(port, ignore_missing=False)
    _delete_network(cloud, network.id)
    cloud.compute.delete_flavor(flavor, ignore_missing=False)
    asyncio.run(settle(roost))


def test_the_sdk_lists_hosts_as_operators_do(cloud: Connection) -> None:
    """Hypervisors, services, aggregates, extensions."""
    names = [host.name for host in cloud.compute.hypervisors(details=True)]
    assert len(names) == 12
    assert sorted(service.host for service in cloud.compute.services(binary="nova-compute")) == sorted(names)
    found = cloud.compute.find_hypervisor("r1-h1", ignore_missing=False)
    assert (found.status, found.vcpus) == ("enabled", None)  # from microversion 2.88 on the ledger alone says that
    assert sorted(len(one.hosts) for one in cloud.compute.aggregates() if "segment" in one.name) == [4, 4, 4]
    assert "os-aggregates" in {one.alias for one in cloud.compute.extensions()}
    assert cloud.network.find_extension("segment", ignore_missing=False).alias == "segment"


@pytest.mark.timeout(600)
def test_every_command_of_the_how_to_works(roost: Cluster, clouds_file: Path) -> None:
    printed = _printed(clouds_file, HOWTO)
    assert re.search(
        r"\bkeeper\b.*\bACTIVE\b.*\boffice=198\.51\.100\.(9|1[0-4])\b.*\br2-h", printed["openstack server list --long"]
    )
    on_host = printed["openstack server list --long --host r2-h1 --status ACTIVE"]
    for name in ("here", "there"):
        assert re.search(rf"\b{name}\b.*\br2-h1\b", on_host), on_host
    assert printed["openstack server show quick -f value -c OS-EXT-SRV-ATTR:host"].strip() == "r3-h1"
    assert re.search(r"\bdisabled\b.*\bfan\b", printed["openstack compute service list --long --host r1-h1"])
    assert len(re.findall(r"\br1-h[1-4]\b", printed["openstack hypervisor list --matching r1-"])) == 4
    assert re.search(r"\bIPV4_ADDRESS\b.* 5 ", printed["openstack resource provider inventory list $SEGMENT"])
    assert "'IPV4_ADDRESS': 1" in printed["openstack resource provider allocation show $PORT"]
    assert re.search(r"\boffice +\|( +(10|3|12) \|){6}", printed["openstack ip availability list"])
    assert re.search(r"\bused_ips +\| 3 ", printed["openstack ip availability show office"])
    lab, door = printed["openstack network show lab2"], printed["openstack port show lab-door"]
    for shown in (r"\bdescription +\| second\b", r"\bmtu +\| 1500\b", r"\btags +\| blue\b", r"\bstatus +\| DOWN\b"):
        assert re.search(shown, lab), lab
    for shown in (r"\bdescription +\| front\b", r"\btags +\| door\b", r"ip_address='198\.51\.100\.1(3|4)"):
        assert re.search(shown, door), door
    pairs = printed["openstack port show lab-bare -f value -c allowed_address_pairs"]
    for shown in ("198.51.100.150", "198.51.100.160/28", "00:00:5e:00:53:02"):
        assert shown in pairs, pairs
    assert printed["openstack port show lab-bare -f value -c port_security_enabled"].strip() == "False"
    assert "lab-door" in printed["openstack port list --fixed-ip ip-substring=198.51.100.13"]
    assert "lab2" in printed["openstack network list --long --tags blue"]
    six, gateway = printed["openstack port show six-port"], printed["openstack port show gateway-port"]
    for shown in (
        r"ip_address='203\.0\.113\.2'",
        r"ip_address='2001:db8:2::2'",
        r"ip_address='2001:db8:1:0:[0-9a-f]+:[0-9a-f]*ff:fe",
    ):
        assert re.search(shown, six), six
    assert re.search(r"ip_address='203\.0\.113\.18'", gateway), gateway
    assert re.search(r"\bipv6_ra_mode +\| slaac\b", printed["openstack subnet show six-auto"])
    assert re.search(r"\bsix=.*203\.0\.113\.3", printed["openstack server show six-server"])
    assert printed["openstack server show web -f value -c status"].strip() == "VERIFY_RESIZE"
    moved = printed["openstack server migration list"]
    assert sorted(re.findall(r"\b(confirmed|reverted|completed|error) ", moved)) == [
        *("completed", "confirmed", "confirmed", "reverted")
    ]
    nics = printed["openstack server show keeper -c addresses"]
    assert len(re.findall(r"198\.51\.100\.(?:3[3-9]|4[0-6])\b", nics)) == 3, nics
    asyncio.run(settle(roost))


def test_every_command_of_the_how_to_on_flat_networks_works(roost: Cluster, clouds_file: Path) -> None:
    # The spare host needs an agent in a terminal: tests/howto/ has one.
    printed = _printed(clouds_file, FLAT_HOWTO.partition("## Be rid of the spare host")[0])
    assert re.search(r"\broost:kind +\| flat\b", printed["openstack network show floor -c name -c roost:kind"])
    assert "floor=192.0.2.66" in printed["openstack server show on-floor -c addresses"]
    assert re.search(r"\bused_ips +\| 2 ", printed["openstack ip availability show floor"])
    asyncio.run(settle(roost))


def test_the_sdk_makes_many_changes_tags_and_turns_pages(cloud: Connection) -> None:
    """Bulk creates, updates with a revision, tags, and lists in pages, each by the sdk's own calls."""
    network = cloud.network.create_network(name="many", segments=[
        {"provider:network_type": "vlan", "provider:physical_network": "rack1", "provider:segmentation_id": number}
        for number in (501, 502)
    ])  # fmt: skip
    assert {one.segmentation_id for one in cloud.network.segments(network_id=network.id)} == {501, 502}
    ports = list(cloud.network.create_ports([{"network_id": network.id, "name": f"port{n}"} for n in range(5)]))
    assert sorted(port.name for port in ports) == [f"port{n}" for n in range(5)]
    listed = [port.name for port in cloud.network.ports(network_id=network.id, limit=2)]
    assert sorted(listed) == [f"port{n}" for n in range(5)]
    with pytest.raises(exceptions.NotFoundException):
        cloud.network.create_ports([{"network_id": network.id}, {"network_id": "11111111-1111-4111-8111-111111111111"}])
    assert len(list(cloud.network.ports(network_id=network.id))) == 5

    changed = cloud.network.update_network(network, description="new", if_revision=network.revision_number)
    assert (changed.description, changed.revision_number) == ("new", 2)
    with pytest.raises(exceptions.PreconditionFailedException):
        cloud.network.update_network(network.id, description="newer", if_revision=1)
    cloud.network.set_tags(changed, ["red", "blue"])
    assert [one.id for one in cloud.network.networks(any_tags="red,green")] == [network.id]
    assert network.id not in [one.id for one in cloud.network.networks(not_any_tags="red")]
    cloud.network.remove_tag(changed, "red")
    assert cloud.network.get_network(network.id).tags == ["blue"]
    for port in ports:
        cloud.network.delete_port(port, ignore_missing=False)
    _delete_network(cloud, network.id)


def test_commands_that_are_not_served_say_so(clouds_file: Path) -> None:
    """Never a 500, a traceback or an effect."""
    boot = "openstack server create --flavor small --network public --block-device boot_index=0 web"
    first, *refused, last = run_openstack(clouds_file, [boot, *NOT_SERVED, "openstack server delete web"])
    assert (first["status"], last["status"]) == (0, 0), (first, last)
    for one in refused:
        assert one["status"] == 1, one
        assert re.search(NOT_SERVED_WORDS, one["err"]), one


def test_options_that_are_not_served_are_refused_by_name(cloud: Connection, clouds_file: Path) -> None:
    cases = (*REFUSED, *COMPUTE_REFUSED)
    done = run_openstack(clouds_file, [line for line, _ in cases])
    for one, (_, said) in zip(done, cases, strict=True):
        assert one["status"] == 1, one
        assert said in one["err"], one
    assert list(cloud.compute.servers(all_projects=True)) == []
    assert [network.name for network in cloud.network.networks()] == ["public"]
    with pytest.raises(exceptions.BadRequestException, match="router: Roost does not serve it"):
        cloud.network.update_quota("acme", routers=5)
    assert cloud.network.update_quota("acme", routers=-1, ports=5).ports == 5
    cloud.network.delete_quota("acme")


def _make_network(cloud: Connection, name: str) -> Any:
    """A routed network on two racks, five addresses in each."""
    network = cloud.network.create_network(name=name)
    for number, rack in enumerate(("rack1", "rack2")):
        segment = cloud.network.create_segment(
            network_id=network.id, name=rack, network_type="vlan", physical_network=rack, segmentation_id=201 + number
        )
        cloud.network.create_subnet(
            network_id=network.id, segment_id=segment.id, ip_version=4, cidr=f"192.0.2.{8 * number}/29"
        )
    return network


def _delete_network(cloud: Connection, network_id: str) -> None:
    for subnet in cloud.network.subnets(network_id=network_id):
        cloud.network.delete_subnet(subnet, ignore_missing=False)
    for segment in cloud.network.segments(network_id=network_id):
        cloud.network.delete_segment(segment, ignore_missing=False)
    cloud.network.delete_network(network_id, ignore_missing=False)


def _address(server: Any) -> str:
    (held,) = server.addresses["sdk"]
    return str(held["addr"])


def _rack_of(address: str) -> str:
    """The first characters of the names of the hosts that reach an address of _make_network."""
    return "r1" if ipaddress.ip_address(address) in ipaddress.ip_network("192.0.2.0/29") else "r2"


def _check_placement(cloud: Connection, segment_id: str, server: Any) -> None:
    """The segment's inventory is its pool; the server's claim is on its host."""
    segment = cloud.placement.get_resource_provider(segment_id)
    (inventory,) = cloud.placement.resource_provider_inventories(segment)
    assert (inventory.resource_class, inventory.total) == ("IPV4_ADDRESS", 5)
    (host,) = cloud.placement.resource_providers(name=server.compute_host)
    held = cloud.placement.get(f"/allocations/{server.id}", microversion="1.39").json()
    assert held["allocations"][host.id]["resources"] == {"VCPU": 1, "MEMORY_MB": 512, "DISK_GB": 1}
    assert held["consumer_type"] == "INSTANCE"


def _printed(clouds_file: Path, howto: str) -> dict[str, str]:
    """What each command of `openstack` in a how-to prints; all must end well, those that are to be repeated then."""
    blocks = re.findall(r"```console\n(.*?)```", howto, re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines() if not line.startswith("roost ")]
    done = run_openstack(clouds_file, lines)
    for _ in range(REPEATED_MAX):  # one after the other they are quicker than a host; a person is not
        again = [one["line"] for one in done if one["status"] != 0 and "repeat the request once" in one["err"]]
        if not again:
            break
        done = [one for one in done if one["line"] not in again] + run_openstack(clouds_file, again)
    failed = [one for one in done if one["status"] != 0]
    assert not failed, "\n".join(f"{one['line']}: {one['err']}" for one in failed)
    return {one["line"]: one["out"] for one in done}


def test_port_bindings_are_made_activated_and_deleted(cloud: Connection) -> None:
    """As live migration does, with the calls of the SDK as they are released."""
    network = cloud.network.create_network(name="bindings")
    cloud.network.create_subnet(network_id=network.id, cidr="198.18.0.0/24", ip_version=4)
    port = cloud.network.create_port(
        network_id=network.id, device_owner="compute:nova", device_id="vm", binding_host_id="from"
    )
    made = cloud.network.create_port_binding(port, host="to", profile={"migrating_to": "to"})
    assert (made.host, made.status, made.vif_type) == ("to", "INACTIVE", "ovs")
    active = cloud.network.activate_port_binding(port, "to")
    assert active is not None
    assert (active.host, active.status) == ("to", "ACTIVE")
    assert cloud.network.get_port(port.id).binding_host_id == "to"
    assert {one.host: one.status for one in cloud.network.port_bindings(port)} == {"from": "INACTIVE", "to": "ACTIVE"}
    cloud.network.delete_port_binding(port, "from", ignore_missing=False)
    assert [one.host for one in cloud.network.port_bindings(port)] == ["to"]
    cloud.network.delete_port(port, ignore_missing=False)
    cloud.network.delete_network(network, ignore_missing=False)


def test_the_sdk_sets_shows_and_forgets_quotas(cloud: Connection) -> None:
    network = cloud.network
    assert network.update_quota("acme", ports=2, check_limit=True).ports == 2
    assert network.get_quota("acme").ports == 2
    assert network.get_quota("acme", details=True).ports == {"limit": 2, "used": 0, "reserved": 0}
    assert network.get_quota_default("acme").ports == -1
    assert [quota.project_id for quota in network.quotas()] == ["acme"]
    network.delete_quota("acme")
    assert list(network.quotas()) == []


def test_the_sdk_sets_shows_and_forgets_quotas_of_servers(cloud: Connection) -> None:
    compute = cloud.compute
    assert compute.update_quota_set("acme", instances=2, key_pairs=5).instances == 2
    shown = compute.get_quota_set("acme", usage=True)
    assert (shown.instances, shown.usage["instances"], shown.key_pairs, shown.metadata_items) == (2, 0, 5, 128)
    assert compute.get_quota_set_defaults("acme").instances == -1
    compute.revert_quota_set("acme")
    assert compute.get_quota_set("acme").instances == -1
    assert compute.get_limits().absolute.instances == -1
    assert list(compute.usages()) == []
