"""The section `[placement]` of roost.toml."""

from msgspec import Struct


class PlacementSettings(Struct, frozen=True, kw_only=True):
    """Who may use the Placement API. policy_file: rules that override the defaults, relative to roost.toml's folder.

    enforce_new_defaults: False lets in, besides, whom a rule's deprecated default let in: the role `admin`, everywhere.
    """

    policy_file: str = ""
    enforce_new_defaults: bool = True
