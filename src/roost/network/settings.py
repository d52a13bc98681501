"""The section `[network]` of roost.toml."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from roost.platform.quotas import Maximum

UPSTREAM_QUOTAS = {"quota_network": 100, "quota_subnet": 100, "quota_port": 500}
"""What holds with Keystone where none is set. Source: Neutron, conf/quota.py."""

FIXED_IPS_MAX = 16
"""How many any port may be given by name."""


class NetworkSettings(Struct, frozen=True, kw_only=True):
    """How the network service works; times are in seconds.

    assignment: which of a subnet's free addresses comes next. "packed": the lowest. "spread": the next from a point
    that is chosen by chance each time, so that addresses are not reused soon.
    reconcile_s: how often the leftovers of killed processes are looked for. audit_s: how often everything is audited.
    intent_s: how long a claim without an address is left alone, unless its port's build is at work.
    publish_lease_s: how long a killed publisher delays a segment.
    quota_*: how many a project may have without a quota of its own; -1: any number. None: see UPSTREAM_QUOTAS.
    max_fixed_ips_per_port: how many addresses a client may name for a port that is not the network's own.
    url: the Network API that conductors have credentials for. "": the same Roost serves it, and none are needed.
    token_file: has the token for it. "": Keystone gives one for the OS_… variables.
    credentials: what a conductor without them does. "warn": it builds servers in the late order and says so. "require":
    it does not start. credentials_check_s: how often they are tried.
    """

    assignment: Literal["packed", "spread"] = "packed"
    reconcile_s: float = 10.0
    audit_s: float = 300.0
    intent_s: float = 60.0
    publish_lease_s: float = 10.0
    quota_network: Maximum | None = None
    quota_subnet: Maximum | None = None
    quota_port: Maximum | None = None
    max_fixed_ips_per_port: Annotated[int, Meta(ge=1, le=FIXED_IPS_MAX)] = 5
    url: str = ""
    token_file: str = ""
    credentials: Literal["warn", "require"] = "warn"
    credentials_check_s: Annotated[float, Meta(gt=0)] = 10.0

    def __post_init__(self) -> None:
        """Raise ValueError when the Network API's endpoint is no address."""
        if self.url and not self.url.startswith(("http://", "https://")):
            raise ValueError(f"url {self.url!r}: expected an address: http://127.0.0.1:9696")
