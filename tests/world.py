"""What the hosts themselves say, beside the four records: the oracle that reads the agents' own state.

A guest has its NICs up while its journal says so, its agent's promise has not run out and its host has not lost its
power since. Which addresses it has is what its agent was told last.
"""

import time
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from roost.agent.drivers.fake import list_present, read_nics_end
from roost.platform.database import Connection
from roost.seams.agent import NICS_UP


class GuestUp(NamedTuple):
    """A guest with its NICs up. as_told: no port of its server has changed since its agent was told of them."""

    server_id: str
    host: str
    addresses: tuple[str, ...]
    as_told: bool = True


NEVER = 2**63
"""In nanoseconds since 1970."""


def cut_power(directory: Path, host: str) -> None:
    """Note that whatever guests the host has do not run any more, whatever its agent finds in its journal later."""
    _note(directory / "power-cuts", host, time.time_ns())


def read_notes(file: Path) -> dict[str, list[int]]:
    """Return host -> when something was noted of it, in order."""
    notes: defaultdict[str, list[int]] = defaultdict(list)
    for line in file.read_text().splitlines() if file.exists() else ():
        name, at_ns = line.split()
        notes[name].append(int(at_ns))
    return notes


def _note(file: Path, name: str, at_ns: int) -> None:
    with file.open("a") as notes:
        notes.write(f"{name} {at_ns}\n")


def list_up(directory: Path) -> list[GuestUp]:
    """Return the guests with their NICs up, by the state directories of all agents below `directory`."""
    power_cuts = read_notes(directory / "power-cuts")
    guests = []
    for state in sorted(directory.glob("agent-*")):
        if not state.is_dir():
            continue
        end = read_nics_end(state)
        for line in list_present(state).values():
            end_ns = end.of(line.host) or NEVER
            cut_ns = max(power_cuts[line.host], default=0)
            if line.state in NICS_UP and time.time_ns() < end_ns and cut_ns <= line.at_ns:
                guests.append(GuestUp(line.server_id, line.host, line.addresses))
    return guests


ADDRESSES = """
SELECT CASE WHEN p.nic_tag = '' THEN p.made_for::text ELSE p.device_id END AS device_id, host(a.address) AS address
FROM network.address a JOIN network.port p ON p.id = a.port_id
WHERE p.device_id <> '' OR p.nic_tag = ''
"""


async def read_addresses(connection: Connection) -> dict[str, set[str]]:
    """Return device id -> the addresses that its ports have."""
    addresses: defaultdict[str, set[str]] = defaultdict(set)
    for row in await connection.fetch(ADDRESSES):
        addresses[row["device_id"]].add(row["address"])
    return addresses


def list_world_problems(guests: list[GuestUp], addresses_by_device: Mapping[str, set[str]]) -> list[str]:
    """Return what the hosts' guests show to be wrong: of servers that nothing works on."""
    problems = []
    hosts_by_server: defaultdict[str, list[str]] = defaultdict(list)
    servers_by_address: defaultdict[str, list[str]] = defaultdict(list)
    for guest in guests:
        hosts_by_server[guest.server_id].append(guest.host)
        held = addresses_by_device.get(guest.server_id, set())
        for address in guest.addresses:
            servers_by_address[address].append(guest.server_id)
            if guest.as_told and address not in held:
                problems.append(f"running guest {guest.server_id} on {guest.host} has {address}, which is not its own")
        problems += [
            f"running guest {guest.server_id} on {guest.host} lacks its address {address}"
            for address in sorted(held - set(guest.addresses))
            if guest.as_told
        ]
    problems += [
        f"server {server_id} runs on {' and '.join(hosts)}" for server_id, hosts in hosts_by_server.items() if hosts[1:]
    ]
    problems += [
        f"address {address} is on two running guests: {' and '.join(server_ids)}"
        for address, server_ids in servers_by_address.items()
        if server_ids[1:]
    ]
    return problems
