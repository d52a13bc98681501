"""The section `[conductor]` of roost.toml."""

from typing import Annotated

from msgspec import Meta, Struct


class ConductorSettings(Struct, frozen=True, kw_only=True):
    """Limits and times of the pipeline.

    max_attempts: launches that may fail or not begin in time, and binds that may be refused, before a server ends in
    ERROR. lease_s: how long a conductor that died holds its servers up. begin_timeout_s: how long an attempt may take
    until its host begins; launch_timeout_s: how long a launch may take in all. cells: those whose servers it carries on
    with once they are placed; none: all. audit_s: how often servers and hosts are audited.
    repairs_max: servers whose network info is rebuilt in one such round.
    """

    max_attempts: int = 3
    lease_s: float = 30.0
    begin_timeout_s: float = 20.0
    launch_timeout_s: float = 900.0
    recheck_s: float = 5.0
    poll_s: float = 1.0
    reconcile_s: float = 30.0
    audit_s: float = 300.0
    batch_rows: int = 256
    batches_at_once: int = 2
    repairs_max: Annotated[int, Meta(ge=1)] = 1000
    cells: tuple[str, ...] = ()
