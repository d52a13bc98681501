"""The section `[scheduling]` of roost.toml."""

from typing import Literal

from msgspec import Struct

Preference = Literal["spread", "pack", "ignore"]
"""Prefer where most is free, where least is free, or do not look."""


class SchedulingSettings(Struct, frozen=True, kw_only=True):
    """What filters and weighers are told.

    addresses: how segments are preferred by the share of their addresses that is free. memory: how hosts are preferred
    by the memory that they have free, among those that are alike in addresses.
    """

    addresses: Preference = "spread"
    memory: Preference = "spread"
