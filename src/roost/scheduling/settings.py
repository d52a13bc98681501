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
    reach the networks. limit_tenants_to_placement_aggregate: a project that host aggregates name (metadata
    filter_tenant_id) gets only their hosts; placement_aggregate_required_for_tenants: one that none names gets none.
    enable_isolated_aggregate_filtering: hosts of aggregates with metadata trait:NAME=required are only for servers that
    require these traits. The names are Nova's.
    """

    ip_aware: bool = True
    query_placement_for_routed_network_aggregates: bool = True
    limit_tenants_to_placement_aggregate: bool = False
    placement_aggregate_required_for_tenants: bool = False
    enable_isolated_aggregate_filtering: bool = False

    addresses: Preference = "spread"
    memory: Preference = "spread"
