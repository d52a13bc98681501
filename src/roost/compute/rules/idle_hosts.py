"""When a host that polls and begins nothing is closed, and when it is tried again. Times are the database's."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from msgspec.structs import replace

from roost.compute.model.cloud import LaunchRecord

UNBEGUN_MAX = 3
"""So many launches in a row, whose waits did not overlap, close a host."""
CLOSED_SHARE = 3
"""At most one of so many hosts of a physical network is closed so: what all of them lack is nobody's fault."""
PROBE_AFTER_S, PROBE_AFTER_MAX_S = 60.0, 900.0
REMEMBERED = timedelta(hours=1)
"""A launch that was given up longer ago counts no more."""


def count_unbegun(record: LaunchRecord, *, asked_s: float, now: datetime) -> LaunchRecord:
    """Return the record with a launch that is given up now and was asked for asked_s seconds ago.

    A wait in which the host began another launch says nothing against it, and of waits that overlap one counts.
    """
    asked_at = now - timedelta(seconds=asked_s)
    if record.begun_at is not None and record.begun_at >= asked_at:
        return record
    if record.unbegun_at is None or _has_begun(record) or now - record.unbegun_at > REMEMBERED:
        return replace(record, unbegun=1, unbegun_at=now)
    if asked_at < record.unbegun_at:
        return record
    return replace(record, unbegun=record.unbegun + 1, unbegun_at=now)


def judge_idle(
    records: Sequence[LaunchRecord], hosts_by_network: Mapping[str, tuple[int, int]], now: datetime
) -> list[LaunchRecord]:
    """Return those of the records that change now.

    hosts_by_network: physical network -> (hosts that would get servers, those of them that are closed or on probe).
    """
    closed_by_network = {network: closed for network, (_, closed) in hosts_by_network.items()}
    changed = []
    for record in records:
        judged = _judge(record, now)
        if judged.idle and not record.probe_after_s:
            room = all(
                CLOSED_SHARE * (closed_by_network[network] + 1) <= hosts_by_network[network][0]
                for network in record.networks
            )
            if not room:
                continue
            closed_by_network |= {network: closed_by_network[network] + 1 for network in record.networks}
        if judged != record:
            changed.append(judged)
    return changed


def _judge(record: LaunchRecord, now: datetime) -> LaunchRecord:
    """Return the record as it is from now on, whatever there is room for."""
    if _has_begun(record):
        return replace(record, unbegun=0, unbegun_at=None, idle=False, probe_at=None, probe_after_s=0.0)
    if not record.probe_after_s:
        return _closed(record, PROBE_AFTER_S, now) if record.unbegun >= UNBEGUN_MAX else record
    assert record.probe_at is not None, "a host that is closed has a probe"
    if record.idle:
        return replace(record, idle=False) if now >= record.probe_at else record
    # One launch is the probe: it waits for the host, or was given up since.
    if any(time is not None and time >= record.probe_at for time in (record.asked_at, record.unbegun_at)):
        return _closed(record, min(2 * record.probe_after_s, PROBE_AFTER_MAX_S), now)
    return record


def _closed(record: LaunchRecord, probe_after_s: float, now: datetime) -> LaunchRecord:
    return replace(record, idle=True, probe_at=now + timedelta(seconds=probe_after_s), probe_after_s=probe_after_s)


def _has_begun(record: LaunchRecord) -> bool:
    return record.begun_at is not None and record.unbegun_at is not None and record.begun_at >= record.unbegun_at
