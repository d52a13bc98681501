"""Sections of roost.toml for what stands in front of the APIs and beside them.

They are `[api]`, `[listeners]`, `[log]`, `[metrics]`, `[keystone]`, `[proxy]` and `[cors]`; `[neutron]` and
`[placement_client]`, services that are asked; and `[notifications]`, who is told of changes.
"""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from roost.platform.config import ConfigPath, read_secret
from roost.platform.errors import BadRequest
from roost.platform.tls import check_cafile


class ApiSettings(Struct, frozen=True, kw_only=True):
    """The section `[api]` of roost.toml. request_timeout_s: how long a request may take before it is answered 503."""

    request_timeout_s: Annotated[float, Meta(gt=0)] = 30


class ListenerSettings(Struct, frozen=True, kw_only=True):
    """The section `[listeners]` of roost.toml: what each process that listens grants its clients.

    drain_s: how long after SIGTERM requests are still served, while `/readyz` answers 503.
    """

    connections_max: Annotated[int, Meta(ge=16, le=1_000_000)] = 10_000
    connections_per_address_max: Annotated[int, Meta(ge=0)] = 0
    idle_timeout_s: Annotated[float, Meta(ge=1, le=86_400)] = 30
    body_timeout_s: Annotated[float, Meta(ge=1, le=86_400)] = 60
    answer_timeout_s: Annotated[float, Meta(ge=1, le=86_400)] = 60
    drain_s: Annotated[float, Meta(ge=0, le=3_600)] = 0


LogLevel = Literal["debug", "info", "warning", "error"]
LogFormat = Literal["auto", "console", "json", "oslo"]


class LogSettings(Struct, frozen=True, kw_only=True):
    """The section `[log]` of roost.toml: what processes tell their operators, in which words and where.

    format: auto is console on a terminal, else json. file: "" for standard error.
    """

    level: LogLevel = "info"
    format: LogFormat = "auto"
    file: str = ""
    requests: bool = True
    slow_request_s: Annotated[float, Meta(gt=0)] = 1


class MetricsSettings(Struct, frozen=True, kw_only=True):
    """The section `[metrics]` of roost.toml: the bearer token that opens the metrics where not everybody may read them.

    token_file: a file that has the token, and nothing else.
    """

    token: str = ""
    token_file: ConfigPath = ""

    def __post_init__(self) -> None:
        """Raise ValueError for two tokens."""
        if self.token and self.token_file:
            raise ValueError("token and token_file: expected one of them")

    def read_token(self) -> str:
        """Return the token; "" for none. Raises BadRequest."""
        if not self.token_file:
            return self.token
        token = read_secret(self.token_file, option="[metrics] token_file")
        if not token:
            raise BadRequest(f"[metrics] token_file {self.token_file}: expected a token in it")
        return token


class KeystoneUser(Struct, frozen=True, kw_only=True):
    """A user of a Keystone: by password, in a project, or by application credential.

    user_domain_id, project_domain_id: count where they are given, else the names.
    """

    auth_url: str = ""
    username: str = ""
    password: str = ""
    user_domain_id: str = ""
    user_domain_name: str = "Default"
    project_name: str = "service"
    project_domain_id: str = ""
    project_domain_name: str = "Default"
    application_credential_id: str = ""
    application_credential_secret: str = ""
    cafile: str = ""
    insecure: bool = False


class KeystoneSettings(KeystoneUser, frozen=True, kw_only=True):
    """The section `[keystone]` of roost.toml: where Keystone is, and the user by which Roost validates tokens."""

    www_authenticate_uri: str = ""
    service_token_roles: tuple[str, ...] = ("service",)
    token_cache_s: Annotated[float, Meta(ge=1)] = 300
    timeout_s: Annotated[float, Meta(gt=0)] = 10

    def check(self) -> None:
        """Raise BadRequest, which names the option, for what cannot work."""
        if not self.auth_url.startswith(("http://", "https://")):
            what = f"auth_url {self.auth_url!r}" if self.auth_url else "auth_url is needed, in the file of --config"
            raise BadRequest(f"[keystone] {what}: expected an address: https://keystone.example:5000")
        by_credential = bool(self.application_credential_id and self.application_credential_secret)
        if by_credential == bool(self.username and self.password):
            raise BadRequest(
                "[keystone] expected either username and password, "
                "or application_credential_id and application_credential_secret"
            )
        check_cafile(self.cafile, section="keystone")


class PlacementClientSettings(KeystoneUser, frozen=True, kw_only=True):
    """The section `[placement_client]` of roost.toml: the Placement service that Roost uses instead of its own ledger.

    url: its endpoint; "": the ledger next door. Who asks is a user of Keystone; token: sent as it is instead.
    timeout_s: of one request; what is tried again is given up after about as long. connections_max: of each process.
    """

    url: str = ""
    token: str = ""
    timeout_s: Annotated[float, Meta(gt=0)] = 30
    connections_max: Annotated[int, Meta(ge=1, le=1000)] = 16

    def check(self) -> None:
        """Raise BadRequest, which names the option, for what cannot work."""
        for option, address in (("url", self.url), ("auth_url", self.auth_url or "http://")):
            if not address.startswith(("http://", "https://")):
                raise BadRequest(
                    f"[placement_client] {option} {address!r}: expected an address: https://placement.example"
                )
        ways = [
            bool(self.username or self.password),
            bool(self.application_credential_id or self.application_credential_secret),
            bool(self.token),
        ]
        if sum(ways) > 1:
            raise BadRequest(
                "[placement_client] expected one of: username and password, "
                "application_credential_id and application_credential_secret, token"
            )
        if (ways[0] or ways[1]) and not self.auth_url:
            raise BadRequest("[placement_client] auth_url is needed: the address of the Keystone that knows the user")
        check_cafile(self.cafile, section="placement_client")


class NeutronSettings(Struct, frozen=True, kw_only=True):
    """Which Neutron is beside this ledger, and how it is read.

    url: with or without /v2.0; "": what Keystone's catalogue says for the region and the interface. token: what is sent
    as X-Auth-Token; without one a token of the user of `[keystone]`, if there is one. poll_s: between two rounds.
    full_s: after so long all ports are read, not only those that changed. page: objects in one answer.
    claim_grace_s: a claim of an address that no port has is left alone for so long. zones: SEGMENT=ZONE of segments all
    of whose hosts are in that availability zone; others are in Nova's default, nova.
    amqp_url: the RabbitMQ of its notifications, which begin a round at once; "": rounds are begun by the clock alone.
    """

    url: str = ""
    region: str = ""
    interface: Literal["public", "internal", "admin"] = "internal"
    token: str = ""
    poll_s: Annotated[float, Meta(gt=0)] = 5
    full_s: Annotated[float, Meta(gt=0)] = 60
    page: Annotated[int, Meta(ge=1, le=100_000)] = 1000
    timeout_s: Annotated[float, Meta(gt=0)] = 30
    claim_grace_s: Annotated[float, Meta(gt=0)] = 3600
    zones: tuple[str, ...] = ()
    cafile: str = ""
    insecure: bool = False
    amqp_url: str = ""
    amqp_exchange: str = "neutron"
    amqp_topics: tuple[str, ...] = ("notifications",)

    @property
    def zone_by_segment(self) -> dict[str, str]:
        """Return segment id -> the zone of its hosts, of those that are named."""
        return {segment.strip(): zone.strip() for segment, _, zone in (pair.partition("=") for pair in self.zones)}

    def check(self, *, has_catalog: bool = False) -> None:
        """Raise BadRequest, which names the option, for what cannot work. has_catalog: Keystone may say the address."""
        for pair in self.zones:
            if not all(part.strip() for part in pair.partition("=")):
                raise BadRequest(f"[neutron] zones {pair!r}: expected SEGMENT=ZONE: a segment's id, and Nova's zone")
        if self.amqp_url and not self.amqp_url.startswith(("amqp://", "amqps://")):
            # What it is may have a password in it.
            raise BadRequest("[neutron] amqp_url: expected an address: amqp://user:password@broker.example:5672/vhost")
        if self.url and not self.url.startswith(("http://", "https://")):
            raise BadRequest(f"[neutron] url {self.url!r}: expected an address: http://neutron.example:9696")
        if not self.url and (self.token or not has_catalog):
            raise BadRequest(
                "[neutron] url is needed, in the file of --config or as ROOST_NEUTRON_URL: expected an address: "
                "http://neutron.example:9696; or, without a token, auth_url in [keystone], whose catalogue says it"
            )
        check_cafile(self.cafile, section="neutron")


class ProxySettings(Struct, frozen=True, kw_only=True):
    """The section `[proxy]` of roost.toml: whether a proxy in front of Roost says where clients came to."""

    enable_proxy_headers_parsing: bool = False


class CorsSettings(Struct, frozen=True, kw_only=True):
    """The section `[cors]` of roost.toml. allowed_origin: scheme://host[:port], or * for all; none: CORS is off."""

    allowed_origin: tuple[str, ...] = ()
    allow_credentials: bool = True
    allow_methods: tuple[str, ...] = ("GET", "PUT", "POST", "DELETE", "PATCH")
    allow_headers: tuple[str, ...] = (
        "X-Auth-Token",
        "X-Openstack-Request-Id",
        "X-Identity-Status",
        "X-Roles",
        "X-Service-Catalog",
        "X-User-Id",
        "X-Tenant-Id",
        "OpenStack-API-Version",
    )
    expose_headers: tuple[str, ...] = (
        "X-Auth-Token",
        "X-Openstack-Request-Id",
        "X-Subject-Token",
        "X-Service-Token",
        "OpenStack-API-Version",
    )
    max_age_s: int = 3600


StateChanges = Literal["", "vm_state", "vm_and_task_state"]
"""Which changes of a server's state are told."""


class NotificationSettings(Struct, frozen=True, kw_only=True):
    """The section `[notifications]` of roost.toml: who is told of changes; without any destination nobody is.

    outbox_rows_max: notifications that may wait for one destination; the oldest are dropped then. retry_max_s: the
    longest time between two tries. park_after_s: what nobody took for so long is tried no more. host: the name of this
    machine in publisher ids; "": its own. notify_on_state_change: which of servers' states are told, as Nova has it.
    """

    log_file: str = ""
    webhook_url: str = ""
    webhook_secret: str = ""
    amqp_url: str = ""
    amqp_durable_queues: bool = False
    compute_exchange: str = "nova"
    network_exchange: str = "neutron"
    versioned_topics: tuple[str, ...] = ("versioned_notifications",)
    topics: tuple[str, ...] = ("notifications",)
    notify_on_state_change: StateChanges = ""
    outbox_rows_max: Annotated[int, Meta(ge=1)] = 100_000
    timeout_s: Annotated[float, Meta(gt=0)] = 10
    retry_max_s: Annotated[float, Meta(ge=1)] = 60
    park_after_s: Annotated[float, Meta(gt=0)] = 86_400
    host: str = ""

    def __post_init__(self) -> None:
        """Raise ValueError for what cannot work. No message shows an address that may have a password in it."""
        if self.webhook_url and not self.webhook_url.startswith(("http://", "https://")):
            raise ValueError("webhook_url: expected an address: https://receiver.example/notifications")
        if self.webhook_url and not self.webhook_secret:
            raise ValueError("webhook_url needs webhook_secret, with which its requests are signed")
        if self.amqp_url and not self.amqp_url.startswith(("amqp://", "amqps://")):
            raise ValueError("amqp_url: expected an address: amqp://user:password@broker.example:5672/vhost")

    @property
    def destinations(self) -> tuple[str, ...]:
        """Return who gets notifications, by the names of the outbox; nobody: nothing is written."""
        named = {"log_file": self.log_file, "webhook": self.webhook_url, "rabbitmq": self.amqp_url}
        return tuple(name for name, address in named.items() if address)
