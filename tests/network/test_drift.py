"""What is drift of a server's port: every case."""

import itertools

import pytest

from roost.network.model.networks import AddressRange
from roost.network.model.ports import BuildPort, FreeChange
from roost.network.rules.drift import (
    PORT_LATE,
    PORT_RESERVED,
    PORT_STRAY,
    PORT_UNOWNED,
    change_free,
    judge_server_port,
)
from roost.platform.drift import Kind
from roost.seams.compute import ServerState

MADE, LENT, USERS = {"made": True}, {"reserved": True, "held": True}, dict[str, bool]()
RUNS = ServerState(claiming=True, unfinished=False)
BUILDING = ServerState(claiming=True, unfinished=True)
LEAVING = ServerState(claiming=False, unfinished=True)
ENDED = ServerState(claiming=False, unfinished=False)


@pytest.mark.parametrize(
    ("facts", "server", "kind"),
    [
        (MADE, None, PORT_STRAY),
        (MADE, ENDED, PORT_STRAY),
        (LENT, None, PORT_STRAY),
        (LENT, ENDED, PORT_STRAY),
        ({"reserved": True}, None, PORT_STRAY),
        (USERS, None, PORT_UNOWNED),
        (USERS, ENDED, None),
        (USERS, RUNS, None),
        (MADE, RUNS, None),
        (MADE | LENT, RUNS, PORT_LATE),
        (LENT, RUNS, PORT_LATE),
        (MADE | {"reserved": True}, RUNS, PORT_LATE),
        (MADE | LENT | {"bound": True}, RUNS, PORT_RESERVED),
        (LENT | {"bound": True}, RUNS, PORT_RESERVED),
        ({"reserved": True}, RUNS, PORT_RESERVED),
    ],
)
def test_a_port_has_drifted_by_its_server(
    facts: dict[str, bool], server: ServerState | None, kind: Kind | None
) -> None:
    drift = judge_server_port(port(**facts), server)
    assert (drift.kind if drift else None) == kind


def test_nothing_of_a_server_that_is_at_work_has_drifted() -> None:
    for made, reserved, held, bound in itertools.product([False, True], repeat=4):
        for server in (BUILDING, LEAVING):
            assert judge_server_port(port(made=made, reserved=reserved, held=held, bound=bound), server) is None


def port(**facts: bool) -> BuildPort:
    given = {"made": False, "reserved": False, "held": False, "bound": False} | facts
    return BuildPort(id="p", name="", device_id="s", revision=1, **given)


@pytest.mark.parametrize(
    ("free", "wanted"),
    [
        ([], []),
        ([], [AddressRange(1, 5)]),
        ([AddressRange(1, 5)], []),
        ([AddressRange(1, 5)], [AddressRange(1, 3), AddressRange(5, 5)]),
    ],
    ids=["nothing", "all of it is free again", "nothing is free any more", "one begins where another did"],
)
def test_free_ranges_are_replaced_whole(free: list[AddressRange], wanted: list[AddressRange]) -> None:
    change = change_free("s", free, wanted)
    assert change == FreeChange(tuple(("s", one) for one in free), tuple(("s", one) for one in wanted))
