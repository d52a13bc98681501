"""The section `[compute]` of roost.toml."""

from typing import Annotated

from msgspec import Meta, Struct

from roost.platform.quotas import Maximum
from roost.seams.agent import SERVICE_VERSION

UPSTREAM_QUOTAS = {"quota_instances": 10, "quota_cores": 20, "quota_ram": 51_200}
"""What holds with Keystone where none is set. Source: Nova, conf/quota.py."""


class ComputeSettings(Struct, frozen=True, kw_only=True):
    """How the compute service works; times are in seconds.

    host_down_after_s: a host that was not heard of for so long is down, and gets no server until its next poll. How
    often hosts are heard of, and looked at, follows from it. allow_resize_to_same_host: a resize may stay on the host
    of the server. resize_confirm_window: seconds after which a resize that nobody confirmed is confirmed; 0: never.
    image_url: the endpoint of the image service; "": there is none, and images are not looked at.
    default_availability_zone: the zone of hosts that no host aggregate puts into another. keep_history_days: how long
    actions, migrations and faults of deleted servers are kept, events, and drains that are over. keep_history_rows: how
    many rows of the former at most. service_version_min: a host whose agent is of a lower service version is closed,
    and has no say in how servers are built; an upgrade of older agents sets it to 1 first. waiting_hosts_max: hosts of
    one agent's token that may wait to be accepted. quota_*: how many servers, VCPUs and MiB of memory a project may
    have that has no quota of its own, and how many metadata items each of its servers; -1 for any number, None: see
    UPSTREAM_QUOTAS.
    """

    host_down_after_s: Annotated[float, Meta(ge=1)] = 30.0
    service_version_min: Annotated[int, Meta(ge=1, le=SERVICE_VERSION)] = 3
    waiting_hosts_max: Annotated[int, Meta(ge=0)] = 1000
    allow_resize_to_same_host: bool = False
    resize_confirm_window: Annotated[float, Meta(ge=0)] = 0
    image_url: str = ""
    keep_history_days: Annotated[float, Meta(ge=0)] = 30
    keep_history_rows: Annotated[int, Meta(ge=0)] = 1_000_000
    default_availability_zone: Annotated[str, Meta(min_length=1, max_length=255, pattern="^[^:]+$")] = "nova"
    quota_instances: Maximum | None = None
    quota_cores: Maximum | None = None
    quota_ram: Maximum | None = None
    quota_metadata_items: Maximum = 128

    def __post_init__(self) -> None:
        """Raise ValueError when the image service's endpoint is no address."""
        if self.image_url and not self.image_url.startswith(("http://", "https://")):
            raise ValueError(f"image_url {self.image_url!r}: expected an address: http://127.0.0.1:9292")

    @property
    def poll_wait_max_s(self) -> float:
        """Return how long a poll is held at most: a host that lives is heard of when it polls again."""
        return self.host_down_after_s / 2

    @property
    def heard_again_s(self) -> float:
        """Return how old the note that a host was heard of must be for a poll to write it anew."""
        return self.host_down_after_s / 10

    @property
    def lease_s(self) -> float:
        """Return how long an agent may trust a lease that was just renewed: no host is noted as silent before."""
        return self.host_down_after_s - self.look_s - self.heard_again_s

    @property
    def quiet_after_s(self) -> float:
        """Return the longest time between two signs of life of a host that is up."""
        return self.poll_wait_max_s + self.heard_again_s

    @property
    def look_s(self) -> float:
        """Return how often silent hosts are looked for."""
        return min(1.0, self.host_down_after_s / 30)

    @property
    def gap_max_s(self) -> float:
        """Return how long a listener may be away: after longer it cannot tell a host's silence from its own."""
        return self.host_down_after_s / 6
