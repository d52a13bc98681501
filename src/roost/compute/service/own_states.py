"""What guests do by themselves, as reports and lists say it. `compute/rules/own_states.py` decides what it means.

A server whose guest ended is stopped, with the entries and notifications of a stop; a guest that is to be what it was
is asked for that again, as if its user had asked.
"""

from collections import Counter
from collections.abc import Sequence

import structlog

from roost.compute.model.server import Requester
from roost.compute.model.work import GUEST_CHANNEL
from roost.compute.rules import own_states as rules
from roost.compute.rules.actions import STOP
from roost.compute.rules.events import of_own_states
from roost.compute.rules.own_states import OwnOutcome
from roost.compute.service import action_log
from roost.compute.service.context import Compute
from roost.compute.service.events import record
from roost.compute.service.notifications import announce, announce_guests_ended, watch_states
from roost.compute.store import actions as action_rows
from roost.compute.store import guests as guest_rows
from roost.compute.store import own_states as store
from roost.platform.database import Connection
from roost.seams.agent import AgentIdentity, ListedGuest, ReportAnswer

log = structlog.get_logger()


async def take_own_states(
    compute: Compute, present: Sequence[ListedGuest], *, agent: AgentIdentity
) -> list[ReportAnswer]:
    """Judge states that nobody asked for, and do what follows; return an answer for each. One transaction."""
    async with compute.database.transaction() as tx:
        keys, server_ids = {guest.key for guest in present}, {guest.server_id for guest in present}
        works = await guest_rows.lock_works(tx, server_ids)
        guests = await guest_rows.lock_guests(tx, keys)  # R29
        hosts_held = await guest_rows.list_hosts_held(tx, {host for _, host in keys}, agent_id=agent.id)
        servers = await store.lock_servers(tx, server_ids)
        outcome = rules.decide_own_states(
            present, agent_id=agent.id, hosts_held=hosts_held, guests=guests, servers=servers, works=works
        )
        changed = {server_id for server_id, _ in (*outcome.ended, *outcome.undone)}
        states = await watch_states(compute, tx, changed)
        await store.note_guests(tx, outcome.ended, wanted=True)
        await store.note_guests(tx, outcome.undone | outcome.repeated, wanted=False)
        await store.stop_servers(tx, outcome.ended.values())
        await _log_actions(compute, tx, outcome)
        await announce(compute, tx, states)
        ended_by_host = Counter(host for _, host in outcome.ended)
        many = [host for host, count in ended_by_host.items() if count >= rules.MANY]
        whole_hosts = sorted(set(many) - await store.list_hosts_running(tx, many)) if many else []
        await announce_guests_ended(compute, tx, {host: ended_by_host[host] for host in whole_hosts})
        recorded = await record(
            tx,
            of_own_states(
                {key: guest.power_state for key, guest in outcome.ended.items()},
                {key: outcome.desired_by_key[key] for key in outcome.undone},
            ),
        )
    if outcome.undone or outcome.repeated:
        compute.wake(GUEST_CHANNEL)
    for host in whole_hosts:
        log.warning("all guests of a host stopped at once", host=host, guests=ended_by_host[host])
    recorded.tell()
    return outcome.answers


async def _log_actions(compute: Compute, tx: Connection, outcome: OwnOutcome) -> None:
    """Write the actions that nobody asked for: stops that are over, and what hosts are asked for again."""
    for (server_id, host), guest in outcome.ended.items():
        event = rules.CRASHED_EVENT if guest.power_state == "crashed" else rules.STOPPED_EVENT
        await action_log.begin(compute, tx, server_id, STOP.name, _nobody(compute), event=event, host=host)
    await action_log.finish(compute, tx, dict.fromkeys(server_id for server_id, _ in outcome.ended))
    for server_id, host in outcome.undone:
        rule = rules.RULES[outcome.desired_by_key[server_id, host]]
        await action_rows.set_task_state(tx, server_id, rule.task_state)
        await action_log.begin(
            compute, tx, server_id, rule.name, _nobody(compute), event=f"compute_{rule.name}_again", host=host
        )


def _nobody(compute: Compute) -> Requester:
    """Return who asks where it is Roost itself."""
    return Requester(
        request_id=f"req-{compute.env.new_uuid()}", project_id=compute.default_project, user_id=compute.default_user
    )
