"""What agents call, on a listener of their own under /agent/v1: polls, reports, hosts and what they still run.

Roost's own API: sets in, sets out, errors in RFC 9457. Its bodies are seams/agent.py's; which hosts a request may speak
for, agent_access.py says.
"""

from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from roost.compute.api.agent_access import PROBLEMS, agent_problem, hosts_allowed
from roost.compute.model.work import GUEST_CHANNEL
from roost.compute.rules.host_names import check_host_names
from roost.compute.service import Compute, guests, hosts, leases
from roost.platform.bodies import SET, read_json
from roost.platform.http import Api, json_response
from roost.seams.agent import (
    GuestsBody,
    GuestsCompared,
    HostsBody,
    PollBody,
    ReleaseBody,
    ReportsBody,
)

MESSAGE_CHARS_MAX = 2_000


def routes(compute: Compute) -> list[Route]:
    """Return the paths below /agent/v1."""
    api = Api(problems=PROBLEMS, dialect=agent_problem)
    return [*_guest_routes(api, compute), *_host_routes(api, compute), api.not_found()]


def _guest_routes(api: Api, compute: Compute) -> list[Route]:
    polls = guests.Polls(compute)

    async def poll(request: Request) -> Response:
        body = await read_json(request, PollBody, SET)
        check_host_names([*(body.hosts or ()), *(order.host for order in body.busy)])
        allowed = hosts_allowed(request)
        (await allowed()).check(body.hosts or ())
        return json_response(
            await polls.poll(body.hosts, agent=body.agent, busy=body.busy, wait_s=body.wait_s, allowed=allowed)
        )

    async def report(request: Request) -> Response:
        body = await read_json(request, ReportsBody, SET)
        check_host_names(report.host for report in body.reports)
        (await hosts_allowed(request)()).check(report.host for report in body.reports)
        reports = [
            replace(report, message=report.message.replace("\0", "")[:MESSAGE_CHARS_MAX]) for report in body.reports
        ]
        return json_response(await guests.take_reports(compute, reports, agent=body.agent))

    async def compare(request: Request) -> Response:
        body = await read_json(request, GuestsBody, SET)
        check_host_names(guest.host for guest in body.guests)
        covered = await hosts_allowed(request)()
        covered.check(guest.host for guest in body.guests)
        return json_response(GuestsCompared(tuple(await guests.compare_guests(compute, body, covered=covered))))

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
        body = await read_json(request, HostsBody, SET)
        check_host_names(host.name for host in body.hosts)
        covered = await hosts_allowed(request)()
        covered.check(host.name for host in body.hosts)
        registered = await hosts.register_hosts(compute, body.hosts, agent=body.agent, covered=covered)
        compute.wake(GUEST_CHANNEL)  # a fleet that polls for every declared host has new ones
        return json_response({"hosts": registered})

    async def release(request: Request) -> Response:
        body = await read_json(request, ReleaseBody)
        await leases.release_leases(compute, body.agent, covered=await hosts_allowed(request)())
        return json_response({})

    return [
        api.route("/hosts", {"GET": list_hosts, "PUT": register}),
        api.route("/release", {"POST": release}),
    ]
