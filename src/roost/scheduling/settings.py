"""The section `[scheduling]` of roost.toml."""

from typing import Literal

from msgspec import Struct

Preference = Literal["spread", "pack", "ignore"]
"""Prefer where most is free, where least is free, or do not look."""


class SchedulingSettings(Struct, frozen=True, kw_only=True):
    """What filters and weighers are told.

    addresses: how segments are preferred by the share of their addresses that is free. memory: how hosts are preferred
    by the memory that they have free, among those that are alike in addresses.
    ip_aware: a host is chosen only where there are addresses for the server; without it one that reaches the networks,
    and the server is tried elsewhere if there are none. query_placement_for_routed_network_aggregates: only hosts that
    reach the networks; Nova's name.
    """

    ip_aware: bool = True
    query_placement_for_routed_network_aggregates: bool = True

    addresses: Preference = "spread"
    memory: Preference = "spread"
