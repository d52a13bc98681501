"""The section `[placement]` of roost.toml: who may use the Placement API, and how far a search goes."""

from typing import Annotated, Literal

from msgspec import Meta, Struct


class PlacementSettings(Struct, frozen=True, kw_only=True):
    """Names and meanings are upstream's.

    policy_file: rules that override the defaults, relative to roost.toml's folder. enforce_new_defaults: False lets in,
    besides, whom a rule's deprecated default let in: the role `admin`, everywhere.

    max_allocation_candidates: no query gets more, -1 for no such limit. allocation_candidates_generation_strategy:
    breadth-first gives one candidate of each host before a second of any, depth-first all of a host before the first of
    the next. Upstream's default is depth-first, but it applies a query's limit to what was generated in full; here the
    limit ends the search, and depth-first would give one host only. randomize_allocation_candidates: the host that
    comes first is drawn by lot. audit_s: how often the ledger is audited; Roost's own.

    read_from_index_s, Roost's own: how old the index may be that answers reads while the database is away; 0 for never.

    credentials: what a start does when the Placement service that is used instead of the ledger does not let Roost in:
    warn and go on, or refuse (require).
    implied_addresses, Roost's own: a server's candidates and claims include an address for each NIC of an unmodified
    Nova (search/implied.py). hosts_per_address: of a segment with k free addresses at most so many times k hosts are
    offered to it; 0 for no bound.
    """

    policy_file: Annotated[str, Meta(extra={"is_path": True})] = ""
    enforce_new_defaults: bool = True
    max_allocation_candidates: int = -1
    allocation_candidates_generation_strategy: Literal["depth-first", "breadth-first"] = "breadth-first"
    randomize_allocation_candidates: bool = False
    audit_s: float = 300.0
    read_from_index_s: Annotated[float, Meta(ge=0, le=86_400)] = 60
    credentials: Literal["warn", "require"] = "warn"
    implied_addresses: bool = False
    hosts_per_address: Annotated[int, Meta(ge=0, le=1_000_000)] = 4

    @property
    def depth_first(self) -> bool:
        """Whether one host comes after the other."""
        return self.allocation_candidates_generation_strategy == "depth-first"

    def limit(self, asked: int) -> int:
        """Return how many candidates a query gets that asks for at most so many; 0 for all."""
        if self.max_allocation_candidates < 0:
            return asked
        most = max(self.max_allocation_candidates, 1)
        return min(asked or most, most)
