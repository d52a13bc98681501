"""Tables of servers and of the status: names are others' choice, and only text."""

import re

import pytest

from roost.cli.asking.four_records import ServerState
from roost.cli.asking.status import BuildStatus, HostStatus, SegmentStatus, Status
from roost.cli.asking.status_output import print_servers, print_status
from roost.cli.tables import new_table, print_table, table_console

NAME = "[red]web[/green] :smile: \x1b[2J"
SHOWN = "[red]web[/green] :smile: ?[2J"


def test_names_are_shown_as_they_are_and_move_no_cursor(capsys: pytest.CaptureFixture[str]) -> None:
    server = ServerState(id="s1", name=NAME, status="ERROR", host=None, addresses=(), fault="no\nroom", funnel=())
    print_servers(table_console(), [server])
    table, _, fault = capsys.readouterr().out.strip().partition("\n\n")
    assert table.splitlines()[1].split("ERROR")[0].strip() == f"s1  {SHOWN}"
    assert fault == f"{SHOWN}: no room"


def test_a_status_names_what_is_not_as_it_should_be(capsys: pytest.CaptureFixture[str]) -> None:
    hosts = [HostStatus(name=f"h{number}", state="down", status="enabled") for number in range(12)]
    build = BuildStatus(name=NAME, stage="place", attempt=0, host=None, since="then", waits_for="a conductor")
    status = Status(
        hosts=(*hosts, HostStatus(name="up", state="up", status="disabled")),
        segments=(SegmentStatus(network="public", segment="rack1", total=1300, used=1299, free=1),),
        builds=(build,),
        builds_total=2,
    )
    print_status(table_console(), status)
    lines = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    down = "h0, h1, h2, h3, h4, h5, h6, h7, h8, h9 and 2 more"
    assert lines[0] == f"13 hosts: 1 up, 12 down ({down}), 1 disabled (up)."
    assert lines[3].split() == ["public", "rack1", "1,300", "1,299", "1"]
    assert lines[5] == "2 servers are being built or deleted:"
    assert re.split(r" {2,}", lines[7]) == [SHOWN, "place", "then", "a conductor"]
    assert lines[8] == "... and 1 more."


def test_no_line_of_a_table_ends_with_blanks_where_a_program_reads_it(capsys: pytest.CaptureFixture[str]) -> None:
    table = new_table("name", "free", "why", numbers=("free",))
    table.add_row("rack1", "3", "")
    print_table(table_console(), table)
    assert capsys.readouterr().out == "name   free  why\nrack1     3\n"
