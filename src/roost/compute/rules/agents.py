"""Decides whose word an agent's is: its secret must be the one that it brought first, and its newest start holds.

A start draws a boot id. Where a start speaks although a newer one had come, both run: a state directory was copied.
Neither is served then until only one has spoken for a lease. An agent of version 4 has neither boot nor secret.
"""

import hashlib
import hmac
from collections.abc import Iterable
from datetime import datetime, timedelta

from msgspec import Struct
from msgspec.structs import replace

from roost.compute.model.agents import AgentPoll, AgentRow
from roost.seams.agent import AgentIdentity

FORMER_BOOTS_MAX = 8
"""Former starts that are kept. One from before them counts as new, and gives itself away when the newest speaks."""


class AgentRefusal(Struct, frozen=True, kw_only=True):
    """Why an agent is not served. clash: two starts of it run. retry_after_s: when it may be served; None: never."""

    sentence: str
    clash: bool = False
    retry_after_s: float | None = None


class Admission(Struct, frozen=True, kw_only=True):
    """What becomes of an agent's row, and why the agent is not served; None: it is."""

    row: AgentRow
    refusal: AgentRefusal | None = None


def hash_secret(secret: str) -> bytes | None:
    """Return what is kept of a secret; None for none."""
    return hashlib.sha256(secret.encode()).digest() if secret else None


def poll_of(agent: AgentIdentity, hosts: Iterable[str], *, lease_length_s: float) -> AgentPoll:
    """Return the poll with its digest, which changes with the hosts and with what is written of each."""
    names = tuple(hosts)
    terms = f"{agent.service_version} {agent.fence_after_s} {agent.keeps_disks} {lease_length_s:g}\0"
    digest = hashlib.sha256((terms + "\0".join(sorted(names))).encode()).digest()
    return AgentPoll(agent=agent, hosts=names, secret_sha256=hash_secret(agent.secret), hosts_digest=digest)


def is_settled(agent: AgentIdentity, row: AgentRow) -> bool:
    """Return whether the agent's newest start speaks, with its secret, and no older one does."""
    return (agent.boot_id, hash_secret(agent.secret)) == (row.boot_id, row.secret_sha256) and row.former_at is None


def decide_admission(
    agent: AgentIdentity, row: AgentRow, *, now: datetime, lease_s: float, begins: bool = True
) -> Admission:
    """Admit an agent to what its row allows, or refuse it, and return the row as it is from now on.

    begins: a start that is not known yet becomes the newest; otherwise its calls are taken and its poll is waited for.
    lease_s: for how long a start counts as running after it spoke.
    """
    if refusal := _refuse_secret(agent, row):
        return Admission(row=row, refusal=refusal)
    known = replace(row, secret_sha256=row.secret_sha256 or hash_secret(agent.secret))
    if agent.boot_id is None:
        return Admission(row=replace(known, label=agent.label, service_version=agent.service_version, boot_id=None))
    if agent.boot_id != known.boot_id and agent.boot_id not in known.former_boots:
        if not begins:
            return Admission(row=known)
        known = _begin(agent, known, now=now)
    if agent.boot_id == known.boot_id:
        others_at = [known.former_at]
        spoken = replace(known, boot_at=now)
    else:
        newest_at = max(time for time in (known.boot_since, known.boot_at, known.seen_at) if time is not None)
        others_at = [newest_at, known.former_at if known.former_boot_id != agent.boot_id else None]
        spoken = replace(
            known, boot_at=newest_at, former_boot_id=agent.boot_id, former_label=agent.label, former_at=now
        )
    if any(time is not None and now - time < timedelta(seconds=lease_s) for time in others_at):
        return Admission(row=spoken, refusal=_refuse_clash(spoken, lease_s=lease_s))
    return Admission(row=_hold(agent, known, now=now))


def sentence_of_guests(hosts: Iterable[str]) -> str:
    """Return why an agent may not serve other hosts than those of its guests."""
    names = sorted(hosts)
    return (
        f"this agent has guests on {', '.join(names[:3])}{' and other hosts' if names[3:] else ''}, which it does not "
        "name: name them too, move their servers, then drop them"
    )


def _refuse_secret(agent: AgentIdentity, row: AgentRow) -> AgentRefusal | None:
    if row.secret_sha256 is None:
        return None
    secret_sha256 = hash_secret(agent.secret)
    if secret_sha256 is not None and hmac.compare_digest(secret_sha256, row.secret_sha256):
        return None
    which = "another secret than its own" if secret_sha256 else "no secret"
    return AgentRefusal(
        sentence=f"this agent brings {which}: the one that has this id is {_label(row.label)}, started at "
        f"{_show(row.boot_since)}"
    )


def _begin(agent: AgentIdentity, row: AgentRow, *, now: datetime) -> AgentRow:
    """Return the row with a new start as the newest: of a restart, or of a copy of the state directory."""
    former = (row.boot_id, *row.former_boots) if row.boot_id is not None else row.former_boots
    return replace(
        row,
        label=agent.label,
        service_version=agent.service_version,
        boot_id=agent.boot_id,
        boot_since=now,
        boot_at=None,
        former_boots=former[:FORMER_BOOTS_MAX],
    )


def _hold(agent: AgentIdentity, row: AgentRow, *, now: datetime) -> AgentRow:
    """Return the row of an agent of which this start alone speaks."""
    calm = replace(row, former_boot_id=None, former_label="", former_at=None, boot_at=None)
    if agent.boot_id == row.boot_id:
        return replace(calm, label=agent.label, service_version=agent.service_version)
    others = tuple(boot_id for boot_id in row.former_boots if boot_id != agent.boot_id)
    return _begin(agent, replace(calm, former_boots=others), now=now)


def _refuse_clash(row: AgentRow, *, lease_s: float) -> AgentRefusal:
    assert row.former_at is not None
    return AgentRefusal(
        sentence=f"two of this agent run: {_label(row.label)}, started at {_show(row.boot_since)}, and "
        f"{_label(row.former_label)}, an older start heard at {_show(row.former_at)}; neither is served until only one "
        f"has asked for {lease_s:g} s",
        clash=True,
        retry_after_s=lease_s,
    )


def _label(label: str) -> str:
    return label or "one without a label"


def _show(time: datetime) -> str:
    return time.isoformat(timespec="seconds")
