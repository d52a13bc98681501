"""Which notifications tell of what, and what is in them: the rules, and the reference that says the same."""

import re
from collections.abc import Iterator, Mapping
from itertools import product
from pathlib import Path
from typing import Any, get_args

import pytest
from msgspec.structs import replace

from roost.compute.model.cloud import Flavor, Host, HostAggregate
from roost.compute.model.server import Server
from roost.compute.model.work import Failure, Marks, MoveKind, Placed, Stage, StageChange  # fmt: skip
from roost.compute.rules.notifications import (
    ACTIONS_BEGUN,
    GUEST_ACTIONS,
    GUESTS_ENDED,
    AggregateChange,
    At,
    Before,
    HostChange,
    ServerEvent,
    Step,
    begun_steps,
    created_step,
    ended_steps,
    is_state_told,
    launch_failed_steps,
    publisher_of,
    stage_steps,
)  # fmt: skip
from roost.compute.rules.payloads import aggregate_payload, guests_ended_payload, server_payload, service_payload
from roost.platform.env import Env
from roost.platform.settings import StateChanges
from roost.seams.compute import RequestSpec, ServerPort

REFERENCE = Path(__file__).parents[2] / "docs" / "reference" / "notifications.md"
NOW = Env().now()
ID = "6f70656e-0000-4000-8000-000000000001"
FAILED = Failure(message="the host burns")
PLACED = Placed(host="h2", providers_by_port={}, generations={})
SMALL = Flavor(id="1", name="small", vcpus=1, ram_mb=512, disk_gb=1, extra_specs={"a": "b"})
LARGE = replace(SMALL, id="2", name="large")
PORT = ServerPort(
    port_id=ID, tag="0", network_id=ID, network_name="public", mac_address="fa:16:3e:00:00:01",
    addresses=("10.0.0.9", "fd00::9"), preserve_on_delete=False,
)  # fmt: skip
SERVER = Server(
    id=ID, name="web", project_id="p", user_id="u", flavor=SMALL, image_ref="", metadata={"a": "b"}, description=None,
    reservation_id="r-1", launch_index=0, spec=RequestSpec(vcpus=1, memory_mb=512, disk_gb=1), ports=(PORT,),
    status="ACTIVE", task_state=None, host="h1", host_down=False, fault=None, created_at=NOW, updated_at=NOW,
    launched_at=NOW, vm_state="active", tags=("red",), hostname="web",
)  # fmt: skip
BUILD = Marks(server_id=ID, stage=Stage.CREATE_PORTS, deleting=False)
ENDED = ("start", "end")


def of_move(kind: MoveKind | None, stage: Stage) -> Marks:
    return replace(BUILD, kind=kind, stage=stage, source_host=None if kind is None else "h1")


def told(kind: MoveKind | None, before: Stage, after: Stage | None, **more: Any) -> list[str]:
    change = StageChange(server_id=ID, stage=after, placed=PLACED, **more)
    return [step.event_type for step in stage_steps(of_move(kind, before), change)]


def instance(name: str, *phases: str) -> list[str]:
    return [f"instance.{name}.{phase}" for phase in phases]


SELECT_START, SELECT_END = (f"scheduler.select_destinations.{phase}" for phase in ENDED)
ROLLED_BACK = [
    *instance("live_migration_rollback", "start"),
    *instance("live_migration_rollback_dest", *ENDED),
    *instance("live_migration_rollback", "end"),
]


@pytest.mark.parametrize(
    ("kind", "before", "after", "more", "expected"),
    [
        (None, Stage.CREATE_PORTS, Stage.PLACE, {}, [SELECT_START]),
        (None, Stage.PLACE, Stage.PLACE, {}, []),
        (None, Stage.PLACE, Stage.BIND, {}, [SELECT_END]),
        (None, Stage.PLACE, Stage.ALLOCATE, {}, [SELECT_END]),
        (None, Stage.ALLOCATE, Stage.BIND, {}, []),
        (None, Stage.BIND, Stage.LAUNCH, {}, instance("create", "start")),
        (None, Stage.LAUNCH, Stage.RETRY, {}, instance("create", "error")),
        (None, Stage.BIND, Stage.RETRY, {}, []),
        (None, Stage.RETRY, Stage.PLACE, {}, [SELECT_START]),
        (None, Stage.SETTLE, None, {}, []),
        (None, Stage.PLACE, Stage.FAIL, {}, []),
        (None, Stage.FAIL, Stage.FAIL, {}, []),
        (None, Stage.FAIL, None, {}, instance("create", "error")),
        (None, Stage.DELETE, None, {"gone": True}, instance("delete", "end")),
        (MoveKind.LIVE, Stage.DELETE, None, {"gone": True}, instance("delete", "end")),
        (MoveKind.RESIZE, Stage.HOLD, Stage.PLACE, {}, [SELECT_START]),
        (
            MoveKind.RESIZE, Stage.PLACE, Stage.STOP, {},
            [SELECT_END, *instance("resize_prep", *ENDED), *instance("resize", "start")],
        ),
        (MoveKind.RESIZE, Stage.STOP, Stage.BIND, {}, instance("resize", "end")),
        (MoveKind.MIGRATE, Stage.BIND, Stage.LAUNCH, {}, instance("resize_finish", "start")),
        (MoveKind.MIGRATE, Stage.LAUNCH, Stage.RETRY, {}, instance("resize_finish", "error")),
        (MoveKind.MIGRATE, Stage.SETTLE, Stage.SETTLE, {}, []),
        (MoveKind.MIGRATE, Stage.SETTLE, None, {}, instance("resize_finish", "end")),
        (MoveKind.MIGRATE, Stage.CONFIRM, None, {}, instance("resize_confirm", "end")),
        (MoveKind.MIGRATE, Stage.RESTORE, None, {}, instance("resize_revert", "end")),
        (MoveKind.MIGRATE, Stage.RESTORE, None, {"failure": FAILED}, instance("resize", "error")),
        (MoveKind.LIVE, Stage.PLACE, Stage.COPY, {}, [SELECT_END]),
        (MoveKind.LIVE, Stage.COPY, Stage.COPY, {"guest_host": "h2"}, instance("live_migration_pre", "start")),
        (MoveKind.LIVE, Stage.COPY, Stage.COPY, {}, []),
        (
            MoveKind.LIVE, Stage.COPY, Stage.STOP, {},
            [*instance("live_migration_pre", "end"), *instance("live_migration_post", "start")],
        ),
        (
            MoveKind.LIVE, Stage.BIND, Stage.LAUNCH, {},
            [*instance("live_migration_post", "end"), *instance("live_migration_post_dest", "start")],
        ),
        (MoveKind.LIVE, Stage.SETTLE, None, {}, instance("live_migration_post_dest", "end")),
        (MoveKind.LIVE, Stage.COPY, Stage.RETRY, {}, ROLLED_BACK),
        (MoveKind.LIVE, Stage.RESTORE, None, {"failure": FAILED}, ROLLED_BACK),
        (MoveKind.EVACUATE, Stage.PLACE, Stage.STOP, {}, [SELECT_END, "instance.rebuild_scheduled"]),
        (MoveKind.EVACUATE, Stage.BIND, Stage.LAUNCH, {}, instance("rebuild", "start")),
        (MoveKind.EVACUATE, Stage.SETTLE, None, {}, instance("rebuild", "end")),
        (MoveKind.EVACUATE, Stage.RESTORE, None, {"failure": FAILED}, instance("rebuild", "error")),
        (
            MoveKind.SHELVE, Stage.HOLD, Stage.OFFLOAD, {},
            [*instance("shelve", *ENDED), *instance("shelve_offload", "start")],
        ),
        (MoveKind.SHELVE, Stage.OFFLOAD, None, {}, instance("shelve_offload", "end")),
        (MoveKind.UNSHELVE, Stage.PLACE, Stage.BIND, {}, [SELECT_END]),
        (MoveKind.UNSHELVE, Stage.BIND, Stage.LAUNCH, {}, instance("unshelve", "start")),
        (MoveKind.UNSHELVE, Stage.SETTLE, None, {}, instance("unshelve", "end")),
        (MoveKind.UNSHELVE, Stage.RESTORE, None, {"failure": FAILED}, instance("unshelve", "error")),
    ],
)  # fmt: skip
def test_what_tells_of_a_change_of_stage(
    kind: MoveKind | None, before: Stage, after: Stage | None, more: Mapping[str, Any], expected: list[str]
) -> None:
    assert told(kind, before, after, **more) == expected


def test_a_failed_launch_is_told_as_its_kind() -> None:
    assert [step.event_type for step in launch_failed_steps(None)] == instance("create", "error")
    assert [step.event_type for step in launch_failed_steps(MoveKind.LIVE)] == ROLLED_BACK
    assert created_step().event_type == "instance.create.end"


@pytest.mark.parametrize("action", [*GUEST_ACTIONS, "migrate", "lock"])
def test_what_tells_that_a_host_is_done(action: str) -> None:
    name = GUEST_ACTIONS.get(action)
    for failed, phase in ((False, "end"), (True, "error")):
        steps = ended_steps(action, failed=failed)
        assert [step.event_type for step in steps] == ([] if name is None else instance(name, phase))


@pytest.mark.parametrize("action", ["shelve", "unshelve"])
def test_what_is_shelved_on_its_host_is_told_as_asked_for_and_what_leaves_it_by_its_stages(action: str) -> None:
    assert [step.event_type for step in begun_steps(action, by_host=True)] == instance(action, "start")
    assert begun_steps(action, by_host=False) == ()
    assert begun_steps("evacuate", by_host=False) == ACTIONS_BEGUN["evacuate"]


@pytest.mark.parametrize(
    ("at", "server_host", "publisher"),
    [
        (At.API, "h1", "nova-api:here"),
        (At.SCHEDULER, "h1", "nova-scheduler:here"),
        (At.CONDUCTOR, "h1", "nova-conductor:here"),
        (At.SERVER, "h1", "nova-compute:h1"),
        (At.SERVER, None, "nova-conductor:here"),
        (At.SOURCE, "h9", "nova-compute:source"),
        (At.DEST, "h9", "nova-compute:dest"),
    ],
)
def test_the_publisher_is_who_does_the_step(at: At, server_host: str | None, publisher: str) -> None:
    event = ServerEvent(server_id=ID, step=Step("instance.x", "end", at), source_host="source", dest_host="dest")
    assert publisher_of(event, server_host=server_host, here="here") == publisher


INSTANCE = {
    *("architecture", "availability_zone", "block_devices", "created_at", "deleted_at", "display_name"),
    *("display_description", "host", "host_name", "ip_addresses", "kernel_id", "key_name", "launched_at"),
    *("image_uuid", "metadata", "locked", "node", "os_type", "progress", "ramdisk_id", "reservation_id", "state"),
    *("task_state", "power_state", "tenant_id", "terminated_at", "auto_disk_config", "flavor", "updated_at", "user_id"),
    *("uuid", "request_id", "action_initiator_user", "action_initiator_project", "locked_reason", "shares"),
}
ACTION = INSTANCE | {"fault"}
REQUEST_SPEC = {
    *("availability_zone", "flavor", "ignore_hosts", "image", "instance_uuid", "num_instances", "numa_topology"),
    *("pci_requests", "project_id", "scheduler_hints", "security_groups", "force_hosts", "force_nodes"),
    *("instance_group", "requested_destination", "retry", "user_id"),
}


@pytest.mark.parametrize(
    ("name", "kind", "version", "fields"),
    [
        ("instance.power_off", "InstanceActionPayload", "1.9", ACTION),
        (
            "instance.create", "InstanceCreatePayload", "1.13",
            ACTION | {"keypairs", "tags", "trusted_image_certificates", "instance_name"},
        ),
        ("instance.resize_prep", "InstanceActionResizePrepPayload", "1.4", ACTION | {"new_flavor"}),
        ("instance.rebuild", "InstanceActionRebuildPayload", "1.10", ACTION | {"trusted_image_certificates"}),
        ("instance.rebuild_scheduled", "InstanceActionRebuildPayload", "1.10", ACTION | {"trusted_image_certificates"}),
        (
            "instance.update", "InstanceUpdatePayload", "2.1",
            INSTANCE | {"state_update", "audit_period", "old_display_name", "tags"},
        ),
        ("scheduler.select_destinations", "RequestSpecPayload", "1.1", REQUEST_SPEC),
    ],
)  # fmt: skip
def test_a_payload_has_the_fields_of_its_version(name: str, kind: str, version: str, fields: set[str]) -> None:
    made = payload(name)
    assert (made["nova_object.name"], made["nova_object.version"], made["nova_object.namespace"]) == (
        kind, version, "nova",
    )  # fmt: skip
    assert set(made["nova_object.data"]) == fields


def payload(name: str, server: Server = SERVER, **more: Any) -> Any:
    before = Before(old_display_name="old", vm_state="building", task_state="spawning")
    event = ServerEvent(server_id=ID, step=Step(name, "end", At.SERVER), before=before, **more)
    request = {"request_id": "req-1", "user_id": "u2", "project_id": "p2"}
    return server_payload(server, event, request=request, new_flavor=LARGE, now=NOW)


def data_of(name: str, server: Server = SERVER, **more: Any) -> Any:
    return payload(name, server, **more)["nova_object.data"]


def test_a_payload_says_what_the_server_is() -> None:
    data = data_of("instance.power_off")
    assert (data["request_id"], data["action_initiator_user"], data["action_initiator_project"]) == (
        "req-1", "u2", "p2",
    )  # fmt: skip
    assert (data["state"], data["power_state"], data["user_id"], data["tenant_id"]) == ("active", "running", "u", "p")
    shown = [(ip["nova_object.data"]["address"], ip["nova_object.data"]["version"]) for ip in data["ip_addresses"]]
    assert shown == [("10.0.0.9", 4), ("fd00::9", 6)]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", data["created_at"])
    assert data["flavor"]["nova_object.data"]["name"] == "small"
    assert data_of("instance.resize_prep")["new_flavor"]["nova_object.data"]["name"] == "large"
    assert data_of("scheduler.select_destinations")["flavor"]["nova_object.data"]["name"] == "large"


@pytest.mark.parametrize(
    ("power", "launched", "power_state"),
    [("running", True, "running"), ("stopped", True, "shutdown"), ("paused", True, "paused"),
     ("suspended", True, "suspended"), ("incoming", True, "running"), ("running", False, "pending")],
)  # fmt: skip
def test_the_state_of_the_guest_is_named_as_nova_does(power: str, launched: bool, power_state: str) -> None:
    server = replace(SERVER, power=power, launched_at=NOW if launched else None)
    assert data_of("instance.reboot", server)["power_state"] == power_state


@pytest.mark.parametrize(("power", "shown"), [("stopped", "crashed"), ("running", "running")])
def test_a_guest_that_crashed_is_said_to_have_while_it_is_stopped(power: str, shown: str) -> None:
    server = replace(SERVER, power=power, power_state="crashed", launched_at=NOW)
    assert data_of("instance.power_off", server)["power_state"] == shown


def test_the_end_of_a_hosts_guests_is_told_with_their_number() -> None:
    assert guests_ended_payload("h1", 3) == {"host": "h1", "binary": "nova-compute", "guests_ended": 3}


def test_what_is_gone_is_deleted_and_what_failed_says_why() -> None:
    data = data_of("instance.delete", gone=True)
    assert (data["state"], data["task_state"], data["deleted_at"]) == ("deleted", None, data["terminated_at"])
    for failure, kind in ((FAILED, "InstanceActionFailed"), (replace(FAILED, funnel=(("all", 0),)), "NoValidHost")):
        fault = data_of("instance.create", failure=failure)["fault"]
        assert (fault["nova_object.name"], fault["nova_object.version"]) == ("ExceptionPayload", "1.1")
        assert fault["nova_object.data"]["exception"] == kind
        assert fault["nova_object.data"]["exception_message"] == FAILED.message


@pytest.mark.parametrize(
    ("vm_state", "task_state", "told_of"),
    [
        ("active", None, set()), ("building", "spawning", {"vm_state", "vm_and_task_state"}),
        ("active", "powering-off", {"vm_and_task_state"}), ("stopped", None, {"vm_state", "vm_and_task_state"}),
        (None, None, {"vm_state", "vm_and_task_state"}),
    ],
)  # fmt: skip
def test_a_change_of_state_is_told_to_who_asks_for_it(
    vm_state: str | None, task_state: str | None, told_of: set[str]
) -> None:
    before = Before(vm_state=vm_state, task_state=task_state)
    assert {asked for asked in get_args(StateChanges) if is_state_told(before, SERVER, asked)} == told_of


def test_an_update_says_what_was_before() -> None:
    data = data_of("instance.update")
    assert (data["old_display_name"], data["tags"]) == ("old", ["red"])
    states = {"old_state": "building", "state": "active", "old_task_state": "spawning", "new_task_state": None}
    assert data["state_update"]["nova_object.data"] == states


def test_aggregates_and_services_have_the_fields_of_their_versions() -> None:
    aggregate = HostAggregate(
        id=1, uuid=ID, name="racks", metadata={"a": "b"}, hosts=("h1",), created_at=NOW, updated_at=NOW
    )
    made = aggregate_payload(aggregate)
    assert (made["nova_object.name"], made["nova_object.version"]) == ("AggregatePayload", "1.1")
    assert made["nova_object.data"] == {
        "id": 1, "uuid": ID, "name": "racks", "hosts": ["h1"], "metadata": {"a": "b"},
    }  # fmt: skip
    host = Host(
        id=1, name="h1", provider_uuid=ID, vcpus=1, ram_mb=1, disk_gb=1, physical_networks=(), cell="cell1",
        declared=True, disabled=True, disabled_reason="broken", forced_down=False, service_version=3, seen_at=None,
    )  # fmt: skip
    made = service_payload(host)
    assert (made["nova_object.name"], made["nova_object.version"]) == ("ServiceStatusPayload", "1.1")
    assert made["nova_object.data"] == {
        "host": "h1", "binary": "nova-compute", "topic": "compute", "report_count": 0, "disabled": True,
        "disabled_reason": "broken", "availability_zone": None, "last_seen_up": None, "forced_down": False,
        "version": 3, "uuid": ID,
    }  # fmt: skip


def served() -> Iterator[str]:
    """Every event type of a server that any action, report or change of stage can tell."""
    for steps in ACTIONS_BEGUN.values():
        yield from (step.event_type for step in steps)
    for action, failed in product(GUEST_ACTIONS, (False, True)):
        yield from (step.event_type for step in ended_steps(action, failed=failed))
    yield created_step().event_type
    moving = [*MoveKind, None]
    for kind, before, after in product(moving, Stage, [*Stage, None]):
        if is_possible(kind, before, after):
            for more in ({"failure": FAILED}, {"guest_host": "h2", "failure": FAILED}, {"gone": True}):
                yield from told(kind, before, after, **more)
    yield from told(MoveKind.MIGRATE, Stage.RESTORE, None)


def is_possible(kind: MoveKind | None, before: Stage, after: Stage | None) -> bool:
    """Only builds fail and only moves are taken back; servers that are shelved are launched nowhere."""
    if kind is None:
        return before is not Stage.RESTORE
    launching = Stage.LAUNCH in (before, after) or before in (Stage.SETTLE, Stage.COPY)
    return before is not Stage.FAIL and not (kind is MoveKind.SHELVE and launching)


def rows_of_the_reference() -> dict[str, str]:
    """Event type -> the rest of its row."""
    lines = [line for line in REFERENCE.read_text().splitlines() if line.startswith("| `")]
    cells = [line.removeprefix("| ").split(" | ", 1) for line in lines]
    return {name: rest for names, rest in cells for name in re.findall(r"`([a-z_.]+)`", names)}


def test_the_reference_has_what_is_told_and_nothing_else() -> None:
    expected = set(served())
    expected |= {f"aggregate.{name}.{phase}" for name in get_args(AggregateChange) for phase in ENDED}
    expected |= {f"service.{name}" for name in get_args(HostChange)} | {GUESTS_ENDED}
    expected |= {f"port.{name}.{phase}" for name in ("create", "update", "delete") for phase in ENDED}
    written = set(rows_of_the_reference())
    assert written == expected, f"not written: {sorted(expected - written)}; not told: {sorted(written - expected)}"


def test_the_reference_has_the_payloads_that_are_told() -> None:
    rows = rows_of_the_reference()
    for event_type in set(served()):
        name = event_type.rsplit(".", 1)[0] if event_type.count(".") > 1 else event_type
        made = payload(name)
        assert f"`{made['nova_object.name']}` {made['nova_object.version']}" in rows[event_type]
