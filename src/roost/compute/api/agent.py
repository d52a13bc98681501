"""What agents call, on a listener of their own under /agent/v1: polls, reports, hosts and what they still run.

Roost's own API: sets in, sets out, errors in RFC 9457. Unknown fields of a body are ignored, so that a newer agent
can talk to an older Roost. Which hosts a request may speak for, agent_access.py says.
"""

from typing import Annotated, Literal

from msgspec import Meta, Struct
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from roost.compute.api.agent_access import PROBLEMS, agent_problem, hosts_allowed
from roost.compute.api.host_bodies import HOSTS_MAX, VALUES_MAX, Count, HostBody, Name, check_host_names, read_hosts
from roost.compute.model import GUEST_CHANNEL, GuestReport
from roost.compute.rules.guests import KnownGuest
from roost.compute.rules.leases import Agent
from roost.compute.service import Compute, guests, hosts, leases
from roost.platform.http import Api, json_response, read_json

REPORTS_MAX = 2_000
GUESTS_MAX = 20_000
BUSY_MAX = 20_000
MESSAGE_CHARS_MAX = 2_000

Uuid = Annotated[str, Meta(pattern="^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")]


class _Agent(Struct):
    """Who asks: the agent's instance, and what people know it by."""

    id: Uuid
    label: Annotated[str, Meta(max_length=255, pattern=r"^[^\x00]*$")] = ""

    def known(self) -> Agent:
        """Return it in the words of the compute service."""
        return Agent(id=self.id, label=self.label)


class _Release(Struct):
    agent: _Agent


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


class _Hosts(Struct):
    agent: _Agent
    hosts: Annotated[list[HostBody], Meta(max_length=HOSTS_MAX)]


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
        check_host_names([*(body.hosts or ()), *(order.host for order in body.busy)])
        allowed = hosts_allowed(request)
        (await allowed()).check(body.hosts or ())
        busy = [(order.server_id, order.host, order.attempt, order.desired) for order in body.busy]
        return json_response(
            await polls.poll(body.hosts, agent=body.agent.known(), busy=busy, wait_s=body.wait_s, allowed=allowed)
        )

    async def report(request: Request) -> Response:
        body = await read_json(request, _Reports, values_max=VALUES_MAX)
        check_host_names(item.host for item in body.reports)
        (await hosts_allowed(request)()).check(report.host for report in body.reports)
        reports = [_guest_report(item) for item in body.reports]
        return json_response({"reports": await guests.report(compute, reports, agent=body.agent.known())})

    async def compare(request: Request) -> Response:
        body = await read_json(request, _Guests, values_max=VALUES_MAX)
        check_host_names(guest.host for guest in body.guests)
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
        reports = read_hosts(body.hosts)
        (await hosts_allowed(request)()).check(host.name for host in body.hosts)
        registered = await hosts.register_hosts(compute, reports, agent=body.agent.known())
        compute.wake(GUEST_CHANNEL)  # a fleet that polls for every declared host has new ones
        return json_response({"hosts": registered})

    async def release(request: Request) -> Response:
        body = await read_json(request, _Release)
        await leases.release_leases(compute, body.agent.known(), covered=await hosts_allowed(request)())
        return json_response({})

    return [
        api.route("/hosts", {"GET": list_hosts, "PUT": register}),
        api.route("/release", {"POST": release}),
    ]


def _guest_report(item: _Report) -> GuestReport:
    return GuestReport(
        server_id=item.server_id,
        host=item.host,
        attempt=item.attempt,
        state=item.state,
        message=item.message.replace("\0", "")[:MESSAGE_CHARS_MAX],
    )
