"""A process that makes, changes and deletes a port and a subnet, to be killed on the way; its argument is a DSN."""

import asyncio
import sys
import uuid

import msgspec
from tests.network.cloud import PROJECT, Cloud
from tests.network.conftest import MemberCompute

from roost.clients.local_network import LocalNetwork
from roost.clients.local_placement import LocalPlacement
from roost.network.errors import SubnetInUse
from roost.network.model.networks import Network, SubnetChanges
from roost.network.model.ports import FixedIpRequest, PortChanges, PortRequest
from roost.network.service import Networks, networks, ports, subnets
from roost.placement.service.ledger import Ledger, sync_standard_names
from roost.platform.database import Database
from roost.platform.env import Env
from roost.seams.network import Nic


async def do_all(dsn: str) -> None:
    database = await Database.open(dsn)
    ledger = Ledger(database)
    await sync_standard_names(ledger)
    compute = MemberCompute()
    context = Networks(database=database, env=Env(), placement=LocalPlacement(ledger), compute=compute)
    network = await Cloud(context, LocalNetwork(context), compute).plain("10.0.0.0/28")
    port = await ports.create_port(
        context, PortRequest(network_id=network.id, project_id=PROJECT, device_id=str(uuid.uuid4()))
    )
    for addresses in (("10.0.0.9", "10.0.0.10"), ("10.0.0.9",)):
        named = tuple(FixedIpRequest(ip_address=address) for address in addresses)
        await ports.update_port(context, port.id, PortChanges(fixed_ips=named))
    await change_pools(Cloud(context, LocalNetwork(context), compute), network)
    await ports.delete_port(context, port.id)
    wanted = PortRequest(network_id=network.id, project_id=PROJECT, name="whole")
    named = msgspec.structs.replace(wanted, fixed_ips=(FixedIpRequest(ip_address="10.0.0.8"),))
    for made in await ports.create_ports(context, [wanted, named, wanted]):
        await ports.delete_port(context, made.id)
    await networks.delete_network(context, network.id)
    await database.close()


async def change_pools(cloud: Cloud, network: Network) -> None:
    """Pools take in a held address, drop it, and would drop what a build has claimed; the build gives up."""
    (subnet,) = await subnets.list_subnets(cloud.networks)
    server = cloud.server(Nic(tag="0", network_id=network.id))
    for first, last in ((2, 8), (2, 12), (9, 9)):
        if first == 9:
            (made,) = await cloud.ensure(server)
            assert await cloud.claim([made.id], network.id)
        pools = ((f"10.0.0.{first}", f"10.0.0.{last}"),)
        try:
            await subnets.update_subnet(cloud.networks, subnet.id, SubnetChanges(pools=pools))
        except SubnetInUse:
            assert first == 9
    await cloud.client.release_ports([server], restore=True)


def main() -> None:
    """Do all of it."""
    asyncio.run(do_all(sys.argv[1]))
