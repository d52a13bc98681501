"""The section `[network]` of roost.toml."""

from typing import Literal

from msgspec import Struct


class NetworkSettings(Struct, frozen=True, kw_only=True):
    """How the network service works; times are in seconds.

    assignment: which of a subnet's free addresses comes next: the lowest ("packed"), or the one at or above a point of
    the pools that is chosen by chance for each assignment ("spread"), so that addresses are not reused soon.
    reconcile_s: how often what a killed process left behind is looked for. audit_s: how often everything is audited.
    intent_s: how long a claim without an address is left alone, unless its port's build is at work. publish_lease_s:
    how long a killed publisher holds a segment up. quota_*: how many a project may have that has no quota of its own;
    -1 for any number.
    """

    assignment: Literal["packed", "spread"] = "packed"
    reconcile_s: float = 10.0
    audit_s: float = 300.0
    intent_s: float = 60.0
    publish_lease_s: float = 10.0
    quota_network: int = -1
    quota_subnet: int = -1
    quota_port: int = -1
