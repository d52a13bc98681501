"""What is done to a server that is there: power, locks, rebuilds, states by hand, and the log of it."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from tests.agent.cloud import AGENT, take_leases
from tests.blocked import until_blocked
from tests.compute.reporting import report

from roost.compute.model.server import Requester
from roost.compute.rules import actions as rules
from roost.compute.service import Compute
from roost.compute.service import actions as service
from roost.compute.service import hosts as hosts_service
from roost.compute.service.guests import compare_guests
from roost.compute.service.servers import delete_server
from roost.platform.auth import Caller
from roost.platform.errors import RoostError
from roost.seams.agent import GuestReport, GuestsBody, HostReport, ListedGuest

V = "2.96"
ADMIN = Requester(request_id="req-a", project_id="p", user_id="u", is_admin=True)
Act = Callable[..., Awaitable[Any]]


async def make_server(call: Any, compute: Compute, project_id: str | None = None) -> str:
    """A server that is ACTIVE on h1, whose guest AGENT has reported running as attempt 1."""
    await hosts_service.register_hosts(compute, [HostReport(name="h1", vcpus=4, ram_mb=4096, disk_gb=40)], agent=AGENT)
    await take_leases(compute, ["h1"], AGENT)
    flavor = {"name": "small", "id": "small", "vcpus": 1, "ram": 1024, "disk": 10}
    await call("POST", "/v2.1/flavors", {"flavor": flavor})
    body = {"server": {"name": "web", "flavorRef": "small", "networks": "none", "imageRef": "i"}}
    server_id = str((await call("POST", "/v2.1/servers", body, version=V)).body["server"]["id"])
    async with compute.database.transaction() as tx:
        await tx.execute("DELETE FROM compute.work WHERE server_id = $1", server_id)
        await tx.execute(
            "UPDATE compute.server SET host = 'h1', status = 'ACTIVE', task_state = NULL, launched_at = now(),"
            " project_id = coalesce($2, project_id) WHERE id = $1",
            server_id, project_id,
        )  # fmt: skip
        await tx.execute(
            "INSERT INTO compute.guest (server_id, host, attempt, desired, reported, agent_id, begun_at, running_at)"
            " VALUES ($1, 'h1', 1, 'running', 'running', $2, now(), now())",
            server_id, AGENT.id,
        )  # fmt: skip
    return server_id


@pytest.fixture
async def server_id(call: Any, compute: Compute) -> str:
    return await make_server(call, compute)


@pytest.fixture
def act(call: Any, server_id: str) -> Act:
    """`await act("os-stop")`: the action's answer."""

    async def answer(name: str, body: Any = None, *, version: str = V) -> Any:
        return await call("POST", f"/v2.1/servers/{server_id}/action", {name: body}, version=version)

    return answer


async def tell(compute: Compute, server_id: str, state: Any, *, attempt: int = 1, desired: Any = None) -> None:
    said = GuestReport(server_id=server_id, host="h1", attempt=attempt, state=state, message="no disk", desired=desired)
    (answer,) = await report(compute, [said], agent=AGENT)
    assert answer.accepted, answer


async def shown(call: Any, server_id: str) -> tuple[str, str, str | None]:
    server = (await call("GET", f"/v2.1/servers/{server_id}", version=V)).body["server"]
    return server["status"], server["OS-EXT-STS:vm_state"], server["OS-EXT-STS:task_state"]


async def guest_of(compute: Compute, server_id: str) -> tuple[str, int, str | None]:
    async with compute.database.connection() as connection:
        row = await connection.fetchrow(
            "SELECT desired, attempt, reported FROM compute.guest WHERE server_id = $1", server_id
        )
    assert row is not None
    return tuple(row)


POWER = [
    ("os-stop", None, "os-start", ("ACTIVE", "active", "powering-off"), "stopped", ("SHUTOFF", "stopped")),
    ("pause", None, "unpause", ("ACTIVE", "active", "pausing"), "paused", ("PAUSED", "paused")),
    ("suspend", None, "resume", ("ACTIVE", "active", "suspending"), "suspended", ("SUSPENDED", "suspended")),
]


@pytest.mark.parametrize(("name", "body", "back", "during", "state", "after"), POWER)
async def test_power_follows_the_agents_report(
    call: Any, compute: Compute, server_id: str, act: Act,
    name: str, body: Any, back: str, during: tuple[str, ...], state: str, after: tuple[str, str],
) -> None:  # fmt: skip
    answer = await act(name, body)
    assert (answer.status, answer.raw) == (202, b"")
    assert await shown(call, server_id) == during
    assert await guest_of(compute, server_id) == (state, 1, "running")
    again = await act(name, body)
    assert again.status == 409
    assert "in task_state" in again.body["conflictingRequest"]["message"]
    await tell(compute, server_id, state)
    assert await shown(call, server_id) == (*after, None)
    refused = await act(name, body)
    assert f"while it is in vm_state {state}" in refused.body["conflictingRequest"]["message"]
    assert (await act(back)).status == 202
    await tell(compute, server_id, "begun")
    await tell(compute, server_id, "running")
    assert await shown(call, server_id) == ("ACTIVE", "active", None)


async def test_a_server_stays_as_it_was_when_its_host_cannot_do_what_is_asked(
    call: Any, compute: Compute, server_id: str, act: Act
) -> None:
    await act("pause")
    await tell(compute, server_id, "unchanged", desired="stopped")  # of what was desired before
    assert (await shown(call, server_id))[2] == "pausing"
    await tell(compute, server_id, "unchanged", desired="paused")
    assert await shown(call, server_id) == ("ACTIVE", "active", None)
    assert await guest_of(compute, server_id) == ("running", 1, "running")
    path = f"/v2.1/servers/{server_id}/os-instance-actions"
    (action, *_) = (await call("GET", path, version=V)).body["instanceActions"]
    shown_action = (await call("GET", f"{path}/{action['request_id']}", version=V)).body["instanceAction"]
    assert (action["action"], action["message"]) == ("pause", "no disk")
    assert shown_action["events"][0]["result"] == "Error"
    async with compute.database.connection() as connection:
        details = "SELECT events -> 0 ->> 'details' FROM compute.action WHERE name = 'pause'"
        assert await connection.fetchval(details) == "no disk"


@pytest.mark.parametrize(
    ("kind", "status", "task"), [("SOFT", "REBOOT", "rebooting"), ("hard", "HARD_REBOOT", "rebooting_hard")]
)
async def test_a_reboot_makes_the_guest_again(
    call: Any, compute: Compute, server_id: str, act: Act, kind: str, status: str, task: str
) -> None:
    assert (await act("reboot", {"type": kind})).status == 202
    assert await shown(call, server_id) == (status, "active", task)
    assert await guest_of(compute, server_id) == ("running", 2, None)
    late = GuestReport(server_id=server_id, host="h1", attempt=1, state="running")
    (answer,) = await report(compute, [late], agent=AGENT)
    assert not answer.accepted
    await tell(compute, server_id, "running", attempt=2)
    assert await shown(call, server_id) == ("ACTIVE", "active", None)


async def test_a_hard_reboot_overtakes_what_does_not_end(call: Any, compute: Compute, server_id: str, act: Act) -> None:
    assert (await act("pause")).status == 202
    assert (await act("reboot", {"type": "SOFT"})).status == 409
    assert (await act("reboot", {"type": "HARD"})).status == 202
    await tell(compute, server_id, "running", attempt=2)
    log = (await call("GET", f"/v2.1/servers/{server_id}/os-instance-actions", version=V)).body["instanceActions"]
    assert [(one["action"], one["message"]) for one in log] == [
        ("reboot", None),
        ("pause", "reboot overtook it"),
        ("create", None),
    ]


async def test_the_log_says_why_a_move_failed(call: Any, compute: Compute, server_id: str) -> None:
    events = (
        '[{"name": "conductor_place", "started_at": "2026-01-01T00:00:00Z", "result": "Error", "details": "No room."},'
        ' {"name": "conductor_restore", "started_at": "2026-01-01T00:00:00Z", "result": "Success", "details": "Note."}]'
    )
    async with compute.database.transaction() as tx:
        await tx.execute(
            "INSERT INTO compute.action (server_id, request_id, name, project_id, user_id, message, events)"
            " VALUES ($1, 'req-m', 'migrate', 'p', 'u', 'Error', $2)",
            server_id, events,
        )  # fmt: skip
    path = f"/v2.1/servers/{server_id}/os-instance-actions"
    log = (await call("GET", path, version=V)).body["instanceActions"]
    assert [(one["action"], one["message"]) for one in log] == [("migrate", "No room."), ("create", None)]
    assert (await call("GET", f"{path}/req-m", version=V)).body["instanceAction"]["message"] == "No room."


async def test_a_rebuild_changes_the_image_and_keeps_what_is_stopped(
    call: Any, compute: Compute, server_id: str, act: Act
) -> None:
    body = {"imageRef": "j", "name": "db", "description": "d", "metadata": {"k": "v"}}
    answer = await act("rebuild", body)
    assert answer.status == 202
    server = answer.body["server"]
    assert (server["status"], server["image"]["id"], server["name"]) == ("REBUILD", "j", "db")
    assert (server["metadata"], server["description"]) == ({"k": "v"}, "d")
    await tell(compute, server_id, "running", attempt=2)
    assert (await act("os-stop")).status == 202
    await tell(compute, server_id, "stopped", attempt=2)
    assert (await act("rebuild", {"imageRef": "k"})).status == 202
    assert await shown(call, server_id) == ("REBUILD", "stopped", "rebuilding")
    assert await guest_of(compute, server_id) == ("stopped", 3, None)
    await tell(compute, server_id, "stopped", attempt=3)
    assert await shown(call, server_id) == ("SHUTOFF", "stopped", None)


@pytest.mark.parametrize(
    ("version", "body", "word"),
    [
        ("2.96", {"key_name": "k"}, "key_name"),
        ("2.96", {"user_data": "eA=="}, "user_data"), ("2.96", {"trusted_image_certificates": ["c"]}, "trusted"),
        ("2.96", {"preserve_ephemeral": True}, "preserve_ephemeral"), ("2.96", {"accessIPv4": "::1"}, "accessIPv4"),
        ("2.96", {"OS-DCF:diskConfig": "AUTO"}, "diskConfig"), ("2.1", {"description": "d"}, "microversion 2.19"),
        ("2.96", {"personality": []}, "up to microversion 2.56"), ("2.53", {"key_name": None}, "microversion 2.54"),
        ("2.96", {"name": "  "}, "more than blanks"), ("2.96", {"hostname": "h h"}, "hostname"),
    ],
)  # fmt: skip
async def test_a_rebuild_refuses_by_name(act: Act, version: str, body: Any, word: str) -> None:
    answer = await act("rebuild", {"imageRef": "i"} | body, version=version)
    assert answer.status == 400
    assert word in answer.body["badRequest"]["message"]


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        ({"fly": None}, 400, "There is no such action: fly"), ({}, 400, "expected one action, got none"),
        ({"pause": None, "os-stop": None}, 400, "got os-stop, pause"), ([], 400, "malformed body"),
        ({"reboot": {"type": "x"}}, 400, "expected one of"), ({"reboot": {}}, 400, "type"),
        ({"lock": {"locked_reason": ""}}, 400, "locked_reason"), ({"rescue": None}, 501, "rescue: no driver"),
        ({"createImage": {"name": "i"}}, 501, "createImage: no driver"),
        ({"addSecurityGroup": {"name": "web"}}, 404, "Security group web not found"),
    ],
)  # fmt: skip
async def test_actions_are_refused_by_name(call: Any, server_id: str, body: Any, status: int, message: str) -> None:
    answer = await call("POST", f"/v2.1/servers/{server_id}/action", body, version=V)
    assert answer.status == status, answer.raw
    [fault] = answer.body.values()
    assert message in fault["message"]


async def test_actions_have_microversions(act: Act) -> None:
    assert (await act("trigger_crash_dump", version="2.16")).status == 404
    assert (await act("trigger_crash_dump", version="2.17")).status == 501
    assert (await act("lock", {"whatever": 1}, version="2.72")).status == 202
    assert (await act("lock", {"whatever": 1}, version="2.73")).status == 400
    assert (await act("lock", version="2.73")).status == 202


async def test_who_locks_and_who_may_do_what_then(
    call: Any, compute: Compute, as_caller: Callable[[Caller], None]
) -> None:
    server_id = await make_server(call, compute, "mine")
    path = f"/v2.1/servers/{server_id}"
    owner, admin = Caller("u", "mine", ("member", "reader")), Caller("v", "cloud", ("admin",))

    async def locked() -> tuple[bool, str | None]:
        server = (await call("GET", path, version=V)).body["server"]
        return server["locked"], server["locked_reason"]

    as_caller(owner)
    assert (await call("POST", f"{path}/action", {"lock": {"locked_reason": "mine"}}, version=V)).status == 202
    assert await locked() == (True, "mine")
    for method, target, body in (
        ("POST", f"{path}/action", {"os-stop": None}), ("POST", f"{path}/action", {"reboot": {"type": "HARD"}}),
        ("POST", f"{path}/action", {"rebuild": {"imageRef": "i"}}), ("DELETE", path, None),
        ("POST", f"{path}/metadata", {"metadata": {"a": "b"}}), ("DELETE", f"{path}/metadata/a", None),
    ):  # fmt: skip
        answer = await call(method, target, body, version=V)
        assert (answer.status, answer.body["conflictingRequest"]["message"]) == (409, f"Instance {server_id} is locked")
    assert (await call("PUT", path, {"server": {"name": "db"}}, version=V)).status == 200
    assert (await call("PUT", f"{path}/tags/red", version=V)).status == 201
    assert (await call("POST", f"{path}/action", {"unlock": None}, version=V)).status == 202
    assert await locked() == (False, None)
    as_caller(admin)
    assert (await call("POST", f"{path}/action", {"lock": None}, version=V)).status == 202
    as_caller(owner)
    refused = await call("POST", f"{path}/action", {"unlock": None}, version=V)
    assert refused.status == 403
    assert "unlock_override" in refused.body["forbidden"]["message"]
    assert (await call("POST", f"{path}/action", {"lock": {"locked_reason": "x"}}, version=V)).status == 202
    assert await locked() == (True, None)
    as_caller(admin)
    assert (await call("POST", f"{path}/action", {"os-stop": None}, version=V)).status == 202
    assert (await call("POST", f"{path}/action", {"unlock": None}, version=V)).status == 202


async def test_states_are_set_by_hand(call: Any, compute: Compute, server_id: str, act: Act) -> None:
    assert (await act("os-stop")).status == 202
    assert (await act("os-resetState", {"state": "error"})).status == 202
    assert await shown(call, server_id) == ("ERROR", "error", None)
    assert (await act("os-resetState", {"state": "active"})).status == 202
    assert await shown(call, server_id) == ("ACTIVE", "active", None)
    await tell(compute, server_id, "stopped")  # the guest was asked for it: what is so is shown
    assert await shown(call, server_id) == ("SHUTOFF", "stopped", None)
    assert (await act("os-resetState", {"state": "error"})).status == 202
    assert (await act("os-stop")).status == 202
    assert await guest_of(compute, server_id) == ("stopped", 1, None)  # it is asked to say so again
    await tell(compute, server_id, "stopped")
    assert await shown(call, server_id) == ("SHUTOFF", "stopped", None)


async def test_a_guest_that_is_gone_is_made_again_by_a_hard_reboot(
    call: Any, compute: Compute, server_id: str, act: Act
) -> None:
    await tell(compute, server_id, "absent")
    assert (await shown(call, server_id))[0] == "ERROR"
    for name, body in (("os-stop", None), ("os-resetState", {"state": "active"})):
        assert (await act(name, body)).status == 409
    assert (await act("reboot", {"type": "HARD"})).status == 202
    await tell(compute, server_id, "failed", attempt=2)
    assert await shown(call, server_id) == ("ERROR", "error", None)
    assert (await act("reboot", {"type": "HARD"})).status == 202
    await tell(compute, server_id, "running", attempt=3)
    assert await shown(call, server_id) == ("ACTIVE", "active", None)
    assert "fault" not in (await call("GET", f"/v2.1/servers/{server_id}", version=V)).body["server"]
    log = (await call("GET", f"/v2.1/servers/{server_id}/os-instance-actions", version=V)).body["instanceActions"]
    assert [(one["action"], one["message"]) for one in log] == [
        ("reboot", None),
        ("reboot", "its guest is gone from host h1"),
        ("create", None),
    ]


async def test_a_list_of_guests_does_not_undo_what_is_asked_for(compute: Compute, server_id: str, act: Act) -> None:
    """The agent lists the guest that a reboot replaces: the order does that, and the server has not lost it."""
    assert (await act("reboot", {"type": "HARD"})).status == 202
    listed = (ListedGuest(server_id=server_id, host="h1", attempt=1),)
    body = GuestsBody(agent=AGENT, guests=listed, as_of=2**40)
    assert await compare_guests(compute, body) == []
    assert await compare_guests(compute, GuestsBody(agent=AGENT, guests=(), as_of=2**40)) == []
    await tell(compute, server_id, "running", attempt=2)


async def test_what_is_done_is_in_the_log(call: Any, compute: Compute, server_id: str, act: Act) -> None:
    path = f"/v2.1/servers/{server_id}/os-instance-actions"
    assert (await act("os-stop")).status == 202
    [stop, create] = (await call("GET", path, version=V)).body["instanceActions"]
    assert (stop["action"], create["action"], create["instance_uuid"]) == ("stop", "create", server_id)
    [event] = (await call("GET", f"{path}/{stop['request_id']}", version=V)).body["instanceAction"]["events"]
    assert (event["event"], event["host"], event["finish_time"], event["result"]) == (
        "compute_stop_instance", "h1", None, None,
    )  # fmt: skip
    await tell(compute, server_id, "stopped")
    [event] = (await call("GET", f"{path}/{stop['request_id']}", version=V)).body["instanceAction"]["events"]
    assert (event["result"], event["finish_time"] >= event["start_time"]) == ("Success", True)
    made = (await call("GET", f"{path}/{create['request_id']}", version=V)).body["instanceAction"]
    assert [(one["event"], one["result"]) for one in made["events"]] == [
        ("compute__do_build_and_run_instance", "Success")
    ]
    missing = await call("GET", f"{path}/req-x", version=V)
    assert (missing.status, missing.body["itemNotFound"]["message"]) == (404, "Action req-x not found")


async def test_the_log_has_pages_times_and_microversions(call: Any, compute: Compute, server_id: str, act: Act) -> None:
    path = f"/v2.1/servers/{server_id}/os-instance-actions"
    for name in ("lock", "unlock", "lock"):
        assert (await act(name)).status == 202
        if name == "lock":
            assert (await act(name)).status == 202  # again: nothing
    names, target = [], f"{path}?limit=2"
    while target:
        body = (await call("GET", target, version=V)).body
        names += [one["action"] for one in body["instanceActions"]]
        target = body.get("links", [{"href": ""}])[0]["href"].removeprefix("http://cloud:8778/compute")
    assert names == ["lock", "unlock", "lock", "create"]
    everything = (await call("GET", path, version=V)).body["instanceActions"]
    since = everything[1]["updated_at"]
    for query, count in (
        (f"changes-since={since}", 2),
        (f"changes-before={since}Z", 3),
        ("changes-since=2100-01-01T00:00:00Z", 0),
    ):
        assert len((await call("GET", f"{path}?{query}", version=V)).body["instanceActions"]) == count, query
    for version, query in (
        ("2.57", "limit=1"), ("2.65", f"changes-before={since}"), (V, "changes-since=x"), (V, "marker=req-x"),
        (V, "changes-since=2026-01-02T00:00:00Z&changes-before=2026-01-01T00:00:00Z"), (V, "nonsense=1"),
    ):  # fmt: skip
        assert (await call("GET", f"{path}?{query}", version=version)).status == 400, query
    assert "updated_at" not in (await call("GET", path, version="2.57")).body["instanceActions"][0]
    one = f"{path}/{everything[0]['request_id']}"
    fields = {
        version: set((await call("GET", one, version=version)).body["instanceAction"]["events"][0])
        for version in ("2.1", "2.51", "2.62")
    }
    assert fields["2.1"] == {"event", "start_time", "finish_time", "result", "traceback"}
    assert fields["2.62"] - fields["2.51"] == {"host", "hostId"}


async def test_an_owner_sees_events_from_2_51_and_no_hosts(
    call: Any, compute: Compute, as_caller: Callable[[Caller], None]
) -> None:
    server_id = await make_server(call, compute, "mine")
    as_caller(Caller("u", "mine", roles=("reader",)))
    path = f"/v2.1/servers/{server_id}/os-instance-actions"
    [create] = (await call("GET", path, version=V)).body["instanceActions"]
    shown = [
        (await call("GET", f"{path}/{create['request_id']}", version=version)).body["instanceAction"]
        for version in ("2.50", "2.51", "2.62")
    ]
    assert "events" not in shown[0]
    assert set(shown[1]["events"][0]) == {"event", "start_time", "finish_time", "result"}
    assert set(shown[2]["events"][0]) - set(shown[1]["events"][0]) == {"hostId"}


async def test_name_and_description_change(call: Any, server_id: str) -> None:
    path = f"/v2.1/servers/{server_id}"
    changed = (await call("PUT", path, {"server": {"name": " db ", "description": "d"}}, version=V)).body["server"]
    assert (changed["name"], changed["description"]) == ("db", "d")
    assert changed["OS-EXT-STS:vm_state"] == "active"
    changed = (await call("PUT", path, {"server": {"description": None}}, version=V)).body["server"]
    assert (changed["name"], changed["description"]) == ("db", None)
    for version, body in (
        ("2.18", {"description": "d"}), (V, {"name": " "}), (V, {"accessIPv4": "10.0.0.1"}), (V, {"hostname": "h h"}),
        (V, {"OS-DCF:diskConfig": "AUTO"}),
    ):  # fmt: skip
        assert (await call("PUT", path, {"server": body}, version=version)).status == 400, body


async def test_metadata_comes_and_goes(call: Any, server_id: str) -> None:
    path = f"/v2.1/servers/{server_id}/metadata"
    assert (await call("POST", path, {"metadata": {"a": "1", "b": "2"}}, version=V)).body["metadata"] == {
        "a": "1",
        "b": "2",
    }
    assert (await call("PUT", f"{path}/c", {"meta": {"c": "3"}}, version=V)).body == {"meta": {"c": "3"}}
    assert (await call("PUT", f"{path}/c", {"meta": {"d": "3"}}, version=V)).status == 400
    assert (await call("GET", f"{path}/c", version=V)).body == {"meta": {"c": "3"}}
    assert (await call("DELETE", f"{path}/a", version=V)).status == 204
    assert (await call("DELETE", f"{path}/a", version=V)).status == 404
    assert (await call("GET", path, version=V)).body == {"metadata": {"b": "2", "c": "3"}}
    assert (await call("PUT", path, {"metadata": {"z": ""}}, version=V)).body == {"metadata": {"z": ""}}
    many = {str(number): "" for number in range(128)}
    refused = await call("POST", path, {"metadata": many}, version=V)
    assert (refused.status, refused.body["forbidden"]["message"]) == (
        403,
        "Maximum number of metadata items exceeds 128",
    )
    for wrong in ({"a/b": "1"}, {"a": 1}, {"a": "x" * 256}):
        assert (await call("PUT", path, {"metadata": wrong}, version=V)).status == 400


async def test_tags_come_and_go(call: Any, server_id: str) -> None:
    path = f"/v2.1/servers/{server_id}/tags"
    made = await call("PUT", f"{path}/red", version=V)
    assert (made.status, made.headers["location"]) == (201, f"http://cloud:8778/compute{path}/red")
    assert [(await call(method, f"{path}/red", version=V)).status for method in ("PUT", "GET")] == [204, 204]
    assert (await call("GET", f"{path}/blue", version=V)).body["itemNotFound"]["message"] == (
        f"Server {server_id} has no tag 'blue'"
    )
    assert (await call("PUT", path, {"tags": ["a", "b", "a"]}, version=V)).body == {"tags": ["a", "b"]}
    for query, count in (
        ("tags=a,b", 1),
        ("tags=a,c", 0),
        ("tags-any=a,c", 1),
        ("not-tags=a,c", 1),
        ("not-tags-any=a", 0),
    ):
        assert len((await call("GET", f"/v2.1/servers?{query}", version=V)).body["servers"]) == count, query
    assert (await call("DELETE", f"{path}/a", version=V)).status == 204
    assert (await call("DELETE", f"{path}/a", version=V)).status == 404
    assert (await call("PUT", f"{path}/a,b", version=V)).status == 400
    assert (await call("PUT", path, {"tags": ["x"] * 51}, version=V)).status == 400
    assert (await call("PUT", path, {"tags": [str(number) for number in range(50)]}, version=V)).status == 200
    assert "per-server limit 50" in (await call("PUT", f"{path}/more", version=V)).body["badRequest"]["message"]
    assert (await call("DELETE", path, version=V)).status == 204
    assert (await call("GET", path, version=V)).body == {"tags": []}
    assert (await call("GET", path, version="2.25")).status == 404


async def test_a_server_is_made_with_tags(call: Any, compute: Compute, server_id: str) -> None:
    body = {"server": {"name": "b", "flavorRef": "small", "networks": "none", "tags": ["x", "x", "y"]}}
    made = (await call("POST", "/v2.1/servers", body, version=V)).body["server"]["id"]
    assert (await call("GET", f"/v2.1/servers/{made}", version=V)).body["server"]["tags"] == ["x", "y"]


async def test_a_delete_and_an_action_at_once_end_in_the_delete(compute: Compute, server_id: str) -> None:
    """Either may come first; the action is refused once the server is being deleted, and the guest goes in any case."""
    async with compute.database.transaction() as tx:
        await tx.execute("SELECT FROM compute.server WHERE id = $1 FOR UPDATE", server_id)
        both = [
            asyncio.create_task(delete_server(compute, server_id)),
            asyncio.create_task(service.change_power(compute, server_id, rules.STOP, ADMIN)),
        ]
        await until_blocked(compute.database, 2)
    outcomes = await asyncio.gather(*both, return_exceptions=True)
    assert outcomes[0] is None
    assert outcomes[1] is None or isinstance(outcomes[1], RoostError)
    async with compute.database.connection() as connection:
        assert await connection.fetchval("SELECT task_state FROM compute.server") == "deleting"


async def test_an_action_and_a_report_at_once_do_not_deadlock(compute: Compute, server_id: str) -> None:
    for number in range(10):
        rule = rules.PAUSE if number % 2 == 0 else rules.UNPAUSE
        state = "paused" if number % 2 == 0 else "running"
        said = GuestReport(
            server_id=server_id, host="h1", attempt=1, state="running" if state == "paused" else "paused"
        )
        await asyncio.gather(
            service.change_power(compute, server_id, rule, ADMIN), report(compute, [said], agent=AGENT)
        )
        await tell(compute, server_id, state)


async def test_an_action_costs_few_statements(compute: Compute, server_id: str, statements: Callable[[], Any]) -> None:
    with statements() as seen:
        await service.change_power(compute, server_id, rules.STOP, ADMIN)
        assert seen == [
            "compute.lock_guests_of_server", "compute.lock_server", "compute.get_server_context",
            "compute.desire_state", "compute.set_task_state", "compute.insert_action",
        ]  # fmt: skip
