"""When a recovery is over: every host that is alive has listed its guests since the records went back."""

from roost.compute.model.recovery import Recovery

NOTHING_GOES_ON = "nothing is launched, moved or given away until every host that is alive has listed its guests"
ANOTHER_DATABASE = f"the database is another one than was seen last; {NOTHING_GOES_ON}"


def is_over(recovery: Recovery, *, host_down_after_s: float) -> bool:
    """Return whether the records know what the hosts have.

    A host is not taken for silent before it could have been heard of. Hosts that are alive and list nothing are waited
    for until an operator says that it is enough.
    """
    if recovery.missing:
        return False
    return recovery.hosts_silent == 0 or recovery.age_s >= host_down_after_s


def recovery_sentence(recovery: Recovery) -> str:
    """Return what is waited for, in words for operators."""
    since = recovery.noticed_at.isoformat(timespec="seconds")
    if recovery.mark_told is None:
        text = f"the database is another one since {since}, so the records may have gone back in time"
    else:
        text = f"the records went back in time, as agent {recovery.agent_label or 'without a label'} showed at {since}"
    text += f"; {NOTHING_GOES_ON}"
    if recovery.missing:
        names = ", ".join(recovery.hosts_missing)
        more = recovery.missing - len(recovery.hosts_missing)
        text += f"; waiting for {names}" + (f" and {more} more" if more else "")
        return f"{text}: see to their agents, or say that it is enough: roost-manage recovery end"
    return f"{text}; {recovery.hosts_silent} hosts were not heard of yet"
