"""Ports over HTTP, with real processes and fsync on: made, changed one by one, and listed by their device."""

import asyncio
from ipaddress import IPv4Address
from pathlib import Path

from benchmarks.machine import Measured, get_server
from benchmarks.processes import Client, Roost, client_of, launched, prepared
from benchmarks.rows import Kind, Row

CLIENTS = 8
WORKERS = 2
TOGETHER = 250
"""Ports that are made at once before listing is measured."""
PORTS = "/network/v2.0/ports"
NETWORK_ADDRESS = IPv4Address("10.0.0.0")


def measure(row: Row) -> Measured:
    """Measure ports per second, or milliseconds of a list; once a round, each in a new Roost."""
    with prepared() as data_dir:
        return Measured.of([asyncio.run(_one_round(row, data_dir)) for _ in range(row.rounds)])


async def _one_round(row: Row, data_dir: Path) -> Measured:
    with launched(data_dir) as roost:
        roost.serve("placement", "network", workers=WORKERS)
        async with client_of(roost.url) as client:
            network = (await client.call("POST", "/network/v2.0/networks", {"network": {"name": "public"}}))["network"]
            cidr = f"{NETWORK_ADDRESS}/{32 - (row.held + row.amount + 3).bit_length()}"
            subnet = {"network_id": network["id"], "ip_version": 4, "cidr": cidr}
            await client.call("POST", "/network/v2.0/subnets", {"subnet": subnet})
            return await MEASUREMENTS[row.kind](row, roost, client, network["id"])


async def create(row: Row, roost: Roost, client: Client, network_id: str) -> Measured:
    """Return ports per second that eight clients make one by one, each answered with its address."""
    numbers = iter(range(row.amount))

    async def make() -> None:
        for number in numbers:
            port = (await client.call("POST", PORTS, {"port": {"network_id": network_id, "name": f"p{number}"}}))[
                "port"
            ]
            assert port["ip_allocation"] == "immediate", port
            assert len(port["fixed_ips"]) == 1, port

    async with roost.meter().stretch(row.amount, "port") as stretch, asyncio.TaskGroup() as tasks:
        for _ in range(CLIENTS):
            tasks.create_task(make())
    async with roost.meter().watch() as connection:
        return Measured([row.amount / stretch.seconds], [stretch], await get_server(connection))


async def readdress(row: Row, roost: Roost, client: Client, network_id: str) -> Measured:
    """Return ports per second that eight clients give another address, which they name, one by one."""
    made: list[str] = []
    for start in range(0, row.held, TOGETHER):
        count = min(TOGETHER, row.held - start)
        body = {"port": {"network_id": network_id}}
        answers = await asyncio.gather(*(client.call("POST", PORTS, body) for _ in range(count)))
        made += [answer["port"]["id"] for answer in answers]
    numbers = iter(range(row.amount))

    async def change() -> None:
        for number in numbers:
            address = str(NETWORK_ADDRESS + 2 + row.held + number)
            body = {"port": {"fixed_ips": [{"ip_address": address}]}}
            port = (await client.call("PUT", f"{PORTS}/{made[number]}", body))["port"]
            assert [item["ip_address"] for item in port["fixed_ips"]] == [address], port

    async with roost.meter().stretch(row.amount, "port") as stretch, asyncio.TaskGroup() as tasks:
        for _ in range(CLIENTS):
            tasks.create_task(change())
    async with roost.meter().watch() as connection:
        return Measured([row.amount / stretch.seconds], [stretch], await get_server(connection))


async def list_device(row: Row, roost: Roost, client: Client, network_id: str) -> Measured:
    """Return milliseconds in which one client gets the ports of one device among all that are held."""
    ports = [{"network_id": network_id, "device_id": f"device-{number}", "fixed_ips": []} for number in range(row.held)]
    for start in range(0, row.held, TOGETHER):
        await asyncio.gather(*(client.call("POST", PORTS, {"port": p}) for p in ports[start : start + TOGETHER]))
    async with roost.meter().stretch(row.amount, "request") as stretch:
        for number in range(row.amount):
            device = f"device-{number * 7919 % row.held}"
            listed = (await client.call("GET", f"{PORTS}?device_id={device}"))["ports"]
            assert [port["device_id"] for port in listed] == [device]
    async with roost.meter().watch() as connection:
        return Measured([stretch.seconds * 1000 / row.amount], [stretch], await get_server(connection))


MEASUREMENTS = {Kind.PORT_CREATE: create, Kind.PORT_READDRESS: readdress, Kind.PORT_LIST: list_device}
