"""Servers whose root disk is on their host, as its agent says: they are shelved there, and start there again."""

from typing import Any

import pytest
from msgspec.structs import replace
from tests.agent.cloud import AGENT, take_leases
from tests.compute.test_actions import V, guest_of, make_server, shown, tell

from roost.compute.rules.actions import state_sentence
from roost.compute.service import Compute
from roost.compute.service.guests import compare_guests, take_reports
from roost.seams.agent import AgentIdentity, GuestReport, GuestsBody

KEEPING = replace(AGENT, keeps_disks=True)
POWER = {"active": None, "stopped": "os-stop", "paused": "pause", "suspended": "suspend"}
SHELVED = ("SHELVED", "shelved", None)
ACTIVE = ("ACTIVE", "active", None)


@pytest.fixture
async def server_id(call: Any, compute: Compute) -> str:
    made = await make_server(call, compute)
    await take_leases(compute, ["h1"], KEEPING)
    return made


async def ask(call: Any, server_id: str, name: str, body: Any = None) -> tuple[int, str]:
    """Ask for an action; return the status, and the refusal's sentence."""
    answer = await call("POST", f"/v2.1/servers/{server_id}/action", {name: body}, version=V)
    return answer.status, "" if answer.status == 202 else str(answer.body["conflictingRequest"]["message"])


async def shelved(call: Any, compute: Compute, server_id: str) -> None:
    assert await ask(call, server_id, "shelve") == (202, "")
    await tell(compute, server_id, "stopped")
    assert await shown(call, server_id) == SHELVED


async def counts(compute: Compute) -> tuple[int, int]:
    """How many servers are at work, and how many moves there ever were."""
    async with compute.database.connection() as connection:
        work = await connection.fetchval("SELECT count(*) FROM compute.work")
        return work, await connection.fetchval("SELECT count(*) FROM compute.move")


@pytest.mark.parametrize("vm_state", POWER)
async def test_a_server_with_a_disk_on_its_host_is_shelved_there_and_starts_there(
    call: Any, compute: Compute, server_id: str, vm_state: str
) -> None:
    state = {"active": "running"}.get(vm_state, vm_state)
    if (before := POWER[vm_state]) is not None:
        assert (await ask(call, server_id, before))[0] == 202
        await tell(compute, server_id, state)
    assert await ask(call, server_id, "shelve") == (202, "")
    assert (await shown(call, server_id))[1:] == (vm_state, "shelving")
    assert await guest_of(compute, server_id) == ("stopped", 1, None if state == "stopped" else state)
    assert (await ask(call, server_id, "unshelve"))[0] == 409
    await tell(compute, server_id, "stopped")
    assert await shown(call, server_id) == SHELVED
    server = (await call("GET", f"/v2.1/servers/{server_id}", version=V)).body["server"]
    assert (server["OS-EXT-SRV-ATTR:host"], server["OS-EXT-STS:power_state"]) == ("h1", 4)
    for query, found in (("status=SHELVED", 1), ("vm_state=shelved", 1), ("status=SHUTOFF", 0)):
        assert len((await call("GET", f"/v2.1/servers?{query}", version=V)).body["servers"]) == found, query
    assert await ask(call, server_id, "unshelve") == (202, "")
    assert await shown(call, server_id) == ("SHELVED", "shelved", "unshelving")
    assert await guest_of(compute, server_id) == ("running", 1, "stopped")
    await tell(compute, server_id, "running")
    assert await shown(call, server_id) == ACTIVE
    assert await counts(compute) == (0, 0)


async def test_a_server_that_is_shelved_on_its_host_takes_nothing_but_what_keeps_its_disk(
    call: Any, compute: Compute, server_id: str
) -> None:
    status, message = await ask(call, server_id, "shelveOffload")
    assert (status, message) == (409, state_sentence(server_id, "shelveOffload", vm_state="active"))
    await shelved(call, compute, server_id)
    status, message = await ask(call, server_id, "shelveOffload")
    assert status == 409
    assert "off its host it would lose the disk" in message
    for body in ({"host": "h1"}, {"availability_zone": None}):
        status, message = await ask(call, server_id, "unshelve", body)
        assert status == 409
        assert "server status must be SHELVED_OFFLOADED" in message
    for name in ("shelve", "os-start", "os-stop", "pause", "suspend"):
        status, message = await ask(call, server_id, name)
        assert (status, "while it is in vm_state shelved" in message) == (409, True), name
    for name, body in (
        ("reboot", {"type": "HARD"}), ("rebuild", {"imageRef": "j"}), ("resize", {"flavorRef": "small"}),
    ):  # fmt: skip
        assert (await ask(call, server_id, name, body))[0] == 409, name
    assert await shown(call, server_id) == SHELVED
    assert await counts(compute) == (0, 0)


async def test_what_its_host_refuses_leaves_the_server_as_it_was(call: Any, compute: Compute, server_id: str) -> None:
    assert (await ask(call, server_id, "shelve"))[0] == 202
    await tell(compute, server_id, "unchanged", desired="stopped")
    assert await shown(call, server_id) == ACTIVE
    await shelved(call, compute, server_id)
    assert (await ask(call, server_id, "unshelve"))[0] == 202
    await tell(compute, server_id, "unchanged", desired="running")
    assert await shown(call, server_id) == SHELVED
    assert await guest_of(compute, server_id) == ("stopped", 1, "stopped")
    log = (await call("GET", f"/v2.1/servers/{server_id}/os-instance-actions", version=V)).body["instanceActions"]
    assert [(one["action"], one["message"]) for one in log] == [
        ("unshelve", "no disk"), ("shelve", None), ("shelve", "no disk"), ("create", None),
    ]  # fmt: skip


async def says(compute: Compute, server_id: str, sequence: int, power_state: Any) -> None:
    """The agent says what the guest did by itself."""
    said = GuestReport(
        server_id=server_id, host="h1", attempt=1, state="unchanged", by_itself=True, power_state=power_state,
        sequence=sequence,
    )  # fmt: skip
    (answer,) = (await take_reports(compute, [said], agent=AGENT)).reports
    assert answer.accepted


async def test_a_shelved_guest_that_runs_by_itself_is_stopped_again(
    call: Any, compute: Compute, server_id: str
) -> None:
    await shelved(call, compute, server_id)
    await says(compute, server_id, 1, "running")
    assert await shown(call, server_id) == ("SHELVED", "shelved", "powering-off")
    assert await guest_of(compute, server_id) == ("stopped", 1, "running")
    await tell(compute, server_id, "stopped")
    assert await shown(call, server_id) == SHELVED


async def test_a_shelved_guest_that_runs_by_itself_and_cannot_be_stopped_is_shown_as_it_is(
    call: Any, compute: Compute, server_id: str
) -> None:
    await shelved(call, compute, server_id)
    await says(compute, server_id, 1, "running")
    await tell(compute, server_id, "unchanged", desired="stopped")
    assert await shown(call, server_id) == ACTIVE
    await says(compute, server_id, 2, "shutdown")
    assert await shown(call, server_id) == ("SHUTOFF", "stopped", None)


async def test_a_shelved_guest_that_is_gone_is_made_again_and_shelved_no_more(
    call: Any, compute: Compute, server_id: str
) -> None:
    await shelved(call, compute, server_id)
    await compare_guests(compute, GuestsBody(agent=AGENT, guests=(), as_of=2.0**40))
    assert await shown(call, server_id) == ("ERROR", "error", None)
    assert (await ask(call, server_id, "reboot", {"type": "HARD"}))[0] == 202
    await tell(compute, server_id, "running", attempt=2)
    assert await shown(call, server_id) == ACTIVE
    assert (await ask(call, server_id, "os-stop"))[0] == 202
    await tell(compute, server_id, "stopped", attempt=2)
    assert await shown(call, server_id) == ("SHUTOFF", "stopped", None)


async def test_a_shelved_server_that_is_stopped_out_of_error_is_stopped(
    call: Any, compute: Compute, server_id: str
) -> None:
    await shelved(call, compute, server_id)
    assert (await ask(call, server_id, "os-resetState", {"state": "error"}))[0] == 202
    assert (await ask(call, server_id, "os-stop"))[0] == 202
    await tell(compute, server_id, "stopped")
    assert await shown(call, server_id) == ("SHUTOFF", "stopped", None)


@pytest.mark.parametrize("by_itself", [False, True])
async def test_what_the_release_before_started_is_not_shelved_when_it_stops(
    call: Any, compute: Compute, server_id: str, by_itself: bool
) -> None:
    await shelved(call, compute, server_id)
    async with compute.database.transaction() as tx:  # as it starts and shows a server that is stopped
        await tx.execute("UPDATE compute.server SET power = 'running'")
        await tx.execute("UPDATE compute.guest SET desired = 'running', reported = 'running'")
    assert await shown(call, server_id) == ACTIVE
    if by_itself:
        await says(compute, server_id, 1, "shutdown")
    else:
        assert (await ask(call, server_id, "os-stop"))[0] == 202
        await tell(compute, server_id, "stopped")
    assert await shown(call, server_id) == ("SHUTOFF", "stopped", None)


@pytest.mark.parametrize(
    ("agent", "disk_gb"), [(replace(AGENT, keeps_disks=False), 10), (KEEPING, 0)], ids=["says so", "no disk"]
)
async def test_a_server_without_a_disk_on_its_host_leaves_it(
    call: Any, compute: Compute, server_id: str, agent: AgentIdentity, disk_gb: int
) -> None:
    await take_leases(compute, ["h1"], agent)
    async with compute.database.transaction() as tx:
        await tx.execute("UPDATE compute.server SET spec = jsonb_set(spec, '{disk_gb}', to_jsonb($1::int))", disk_gb)
    assert await ask(call, server_id, "shelve") == (202, "")
    assert await counts(compute) == (1, 1)
    assert await guest_of(compute, server_id) == ("running", 1, "running")


async def test_what_an_agent_says_of_disks_stays_known_while_none_is_there(
    call: Any, compute: Compute, server_id: str
) -> None:
    async with compute.database.transaction() as tx:
        await tx.execute("UPDATE compute.host SET agent_id = NULL, silent = true")
    assert await ask(call, server_id, "shelve") == (202, "")
    assert await shown(call, server_id) == ("ACTIVE", "active", "shelving")
    assert await counts(compute) == (0, 0)
