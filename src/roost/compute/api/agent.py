"""What agents call, on a listener of their own under /agent/v1: polls, reports, hosts and what they still run.

Roost's own API: sets in, sets out, errors in RFC 9457. Unknown fields of a body are ignored, so that a newer agent
can talk to an older Roost. Which hosts a request may speak for, agent_access.py says.
"""

from collections.abc import Iterable
from typing import Annotated, Literal

from msgspec import Meta, Struct
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from roost.compute.api.agent_access import PROBLEMS, agent_problem, check_may_declare, hosts_allowed
from roost.compute.guests import KnownGuest
from roost.compute.host_names import find_bad_host_name
from roost.compute.leases import Agent
from roost.compute.model import GuestReport, HostReport
from roost.compute.service import Compute, guests, hosts
from roost.platform.errors import BadRequest
from roost.platform.http import Api, json_response, read_json

HOSTS_MAX = 20_000
"""Hosts in one body; an agent with more of them makes several calls."""
REPORTS_MAX = 2_000
GUESTS_MAX = 20_000
BUSY_MAX = 20_000
MESSAGE_CHARS_MAX = 2_000
VALUES_MAX = 15 * HOSTS_MAX
"""In one body: as many as so many hosts may have. Measured: 30 ms."""

Uuid = Annotated[str, Meta(pattern="^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")]
Name = Annotated[str, Meta(min_length=1, max_length=255, pattern=r"^[^\x00]+$")]
Count = Annotated[int, Meta(ge=0, le=2**31 - 1)]


class _Agent(Struct):
    """Who asks: the agent's instance, and what people know it by."""

    id: Uuid
    label: Annotated[str, Meta(max_length=255, pattern=r"^[^\x00]*$")] = ""

    def known(self) -> Agent:
        """Return it in the words of the compute service."""
        return Agent(id=self.id, label=self.label)


class _Busy(Struct):
    server_id: Uuid
    host: str
    attempt: Count
    desired: Literal["running", "absent"]


class _Poll(Struct):
    """hosts: None for every host that a cloud file declared."""

    agent: _Agent
    hosts: Annotated[list[str], Meta(max_length=HOSTS_MAX)] | None
    wait_s: Annotated[float, Meta(ge=0)] = 0.0
    busy: Annotated[list[_Busy], Meta(max_length=BUSY_MAX)] = []


class _Report(Struct):
    server_id: Uuid
    host: str
    attempt: Count
    state: Literal["begun", "running", "failed", "absent"]
    message: str = ""


class _Reports(Struct):
    agent: _Agent
    reports: Annotated[list[_Report], Meta(max_length=REPORTS_MAX)]


class _Host(Struct):
    name: str
    vcpus: Count
    ram_mb: Count
    disk_gb: Count
    physical_networks: tuple[Name, ...] = ()
    cell: Name = "cell1"
    service_version: Count = 3


class _Hosts(Struct):
    """agent: who serves the hosts; declared, by a cloud file, they are nobody's yet."""

    hosts: Annotated[list[_Host], Meta(max_length=HOSTS_MAX)]
    agent: _Agent | None = None
    declared: bool = False


class _Guest(Struct):
    server_id: Uuid
    host: str
    attempt: Count


class _Guests(Struct):
    """All guests that the agent has on hosts above `after` and up to `until`; None: on all that follow.

    as_of: of the answer to the agent's last poll before it looked which guests it has.
    """

    agent: _Agent
    guests: Annotated[list[_Guest], Meta(max_length=GUESTS_MAX)]
    as_of: Annotated[float, Meta(ge=0)]
    after: Annotated[str, Meta(max_length=255, pattern=r"^[^\x00]*$")] = ""
    until: Name | None = None


def routes(compute: Compute) -> list[Route]:
    """The paths below /agent/v1."""
    api = Api(problems=PROBLEMS, dialect=agent_problem)
    return [*_guest_routes(api, compute), *_host_routes(api, compute), api.not_found()]


def _guest_routes(api: Api, compute: Compute) -> list[Route]:
    polls = guests.Polls(compute)

    async def poll(request: Request) -> Response:
        body = await read_json(request, _Poll, values_max=VALUES_MAX)
        _check_host_names([*(body.hosts or ()), *(order.host for order in body.busy)])
        allowed = hosts_allowed(request)
        (await allowed()).check(body.hosts or ())
        busy = [(order.server_id, order.host, order.attempt, order.desired) for order in body.busy]
        return json_response(
            await polls.poll(body.hosts, agent=body.agent.known(), busy=busy, wait_s=body.wait_s, allowed=allowed)
        )

    async def report(request: Request) -> Response:
        body = await read_json(request, _Reports, values_max=VALUES_MAX)
        _check_host_names(item.host for item in body.reports)
        (await hosts_allowed(request)()).check(report.host for report in body.reports)
        reports = [_guest_report(item) for item in body.reports]
        return json_response({"reports": await guests.report(compute, reports, agent=body.agent.known())})

    async def compare(request: Request) -> Response:
        body = await read_json(request, _Guests, values_max=VALUES_MAX)
        _check_host_names(guest.host for guest in body.guests)
        covered = await hosts_allowed(request)()
        covered.check(guest.host for guest in body.guests)
        listed = [
            KnownGuest(server_id=guest.server_id, host=guest.host, attempt=guest.attempt) for guest in body.guests
        ]
        superseded = await guests.compare_guests(
            compute,
            listed,
            agent=body.agent.known(),
            covered=covered,
            after=body.after,
            until=body.until,
            as_of=body.as_of,
        )
        return json_response({"superseded": superseded})

    return [
        api.route("/poll", {"POST": poll}, held_s=compute.settings.poll_wait_max_s),
        api.route("/reports", {"POST": report}),
        api.route("/guests", {"POST": compare}),
    ]


def _host_routes(api: Api, compute: Compute) -> list[Route]:
    async def list_hosts(request: Request) -> Response:
        covered = await hosts_allowed(request)()
        names = await guests.list_host_names(compute, declared_only=False)
        return json_response({"hosts": [name for name in names if covered.covers(name)]})

    async def register(request: Request) -> Response:
        body = await read_json(request, _Hosts, values_max=VALUES_MAX)
        _check_host_names(host.name for host in body.hosts)
        (await hosts_allowed(request)()).check(host.name for host in body.hosts)
        if body.declared:
            check_may_declare(request)
        reports = [
            HostReport(
                name=host.name,
                vcpus=host.vcpus,
                ram_mb=host.ram_mb,
                disk_gb=host.disk_gb,
                physical_networks=host.physical_networks,
                cell=host.cell,
                service_version=host.service_version,
            )
            for host in body.hosts
        ]
        if (body.agent is None) != body.declared:
            raise BadRequest("expected either agent, of who serves the hosts, or declared: true")
        agent = None if body.agent is None else body.agent.known()
        registered = await hosts.register_hosts(compute, reports, agent=agent)
        compute.wake("roost_guest")  # a fleet that polls for every declared host has new ones
        return json_response({"hosts": registered})

    return [api.route("/hosts", {"GET": list_hosts, "PUT": register})]


def _check_host_names(names: Iterable[str]) -> None:
    if (flaw := find_bad_host_name(names)) is not None:
        raise BadRequest(flaw)


def _guest_report(item: _Report) -> GuestReport:
    return GuestReport(
        server_id=item.server_id,
        host=item.host,
        attempt=item.attempt,
        state=item.state,
        message=item.message.replace("\0", "")[:MESSAGE_CHARS_MAX],
    )
