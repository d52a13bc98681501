"""What `--auth` and `--policy` mean: who needs a token, what validates it, and which rules then apply.

Operators say in roost.toml what policy is ([placement], [cors]); the names that `--policy` takes are a shorthand for
such settings, chosen so that upstream's tests can ask for each of their modes.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from starlette.types import ASGIApp

from roost.cli.serving.roles import PRESETS
from roost.cli.settings import Settings
from roost.placement.settings import PlacementSettings
from roost.platform.auth import Policy, Unrestricted
from roost.platform.authentication import Authentication, noauth2
from roost.platform.cors import Cors
from roost.platform.local_hosts import LocalHosts
from roost.platform.proxies import ProxyAddress, ProxyHeaders
from roost.platform.request_ids import RequestIds
from roost.platform.request_log import RequestLog
from roost.platform.settings import CorsSettings, LogSettings, ProxySettings

if TYPE_CHECKING:
    from oslo_policy.policy import RuleDefault

    from roost.platform.keystone import Keystone

CORS_OF_TESTS = CorsSettings(allowed_origin=("http://valid.example.com",), allow_headers=("openstack-api-version",))

OPEN_PATHS = frozenset({"/", "/healthz", "/readyz", "/healthcheck", "/metrics", "/metrics/openstack", "/agent/v1"}) | {
    "/roost",
    "/roost/",
    "/roost/openapi.json",
}
"""For clients that ask what is served, for monitoring, and for agents, which learn where their listener is; the
documents of the operator's side, which is served wherever compute is.

Metrics are there only with a token of their own, or where nobody needs one (wiring.py).
"""

VERSION_PATHS: Mapping[str, tuple[str, ...]] = {
    "placement": ("", "/", "/openapi.json"),
    "network": ("", "/", "/v2.0", "/v2.0/", "/openapi.json"),
    "compute": ("", "/", "/v2.1", "/v2.1/", "/openapi.json"),
}
"""What clients read before they have a token."""


def read_policy(
    service: str,
    settings: Settings,
    *,
    auth: str,
    policy: str | None,
    warns: bool = False,
) -> Policy:
    """Return the rules of one service's API. warns: as of `api_policy`. Raises BadRequest."""
    return api_policy(service, auth, policy, settings.placement, folder=Path.cwd(), warns=warns)


def api_policy(
    service: str,
    auth: str,
    policy: str | None,
    settings: PlacementSettings,
    *,
    folder: Path,
    warns: bool = False,
) -> Policy:
    """Return the rules of one service's API; without authentication, everything is allowed.

    policy: a name of PRESETS, an operator's file, or None for the settings'. folder: where policy_file is looked for.
    warns: the log names rules in the file that no service has; one policy of one process is enough.
    Raises BadRequest, which names the file and what is wrong with it.
    """
    if auth == "none":
        return Unrestricted()
    from roost.platform.policy import OsloPolicy, opened  # with oslo.policy, 0.2 s

    defaults = default_rules(service)
    if policy is not None and policy in PRESETS:
        if policy == "open":
            defaults = opened(defaults, but=frozenset({"admin_api"} if service == "placement" else ()))
        return OsloPolicy(defaults, enforce_new_defaults=PRESETS[policy])
    named = policy or (folder / settings.policy_file if settings.policy_file else None)
    file = None if named is None else Path(named)
    names = {rule.name for each in (*VERSION_PATHS, "seeing") for rule in default_rules(each)} if warns else None
    return OsloPolicy(defaults, file=file, names_known=names, enforce_new_defaults=settings.enforce_new_defaults)


def default_rules(service: str) -> "list[RuleDefault]":
    """Return the policy rules of one service, with their defaults."""
    if service == "placement":
        from roost.placement.api import rules
    elif service == "network":
        from roost.network.api import rules
    elif service == "seeing":
        from roost.seeing.api import rules
    else:
        from roost.compute.api import rules
    return rules()


def guarded(
    app: ASGIApp,
    *,
    keystone: "Keystone | None",
    auth: str,
    policy: str | None,
    services: tuple[str, ...],
    proxy: ProxySettings,
    cors: CorsSettings,
    log: LogSettings | None = None,
) -> ASGIApp:
    """Return the main listener behind what every request passes: its id, its line in the log, CORS where an origin
    is allowed, authentication, and a proxy's headers where they are believed.
    """
    assert (auth == "keystone") == (keystone is not None)
    if proxy.enable_proxy_headers_parsing:
        app = ProxyHeaders(app)
    if auth != "none":
        app = Authentication(
            app,
            noauth2 if keystone is None else keystone.identify,
            open_paths=_open_paths(services),
            challenge=None if keystone is None else keystone.challenge,
        )
    else:
        app = LocalHosts(app)
    if policy == "cors":
        cors = CORS_OF_TESTS
    if cors.allowed_origin:
        app = Cors(app, cors)
    if log is not None and log.requests:
        app = RequestLog(app, log)
    if proxy.enable_proxy_headers_parsing:
        app = ProxyAddress(app)
    return RequestIds(app, compute_paths=_prefixes("compute", services) if "compute" in services else ())


def _prefixes(service: str, services: tuple[str, ...]) -> tuple[str, ...]:
    """Return where a service is found: below its name, and at the root if it is the only one with an API."""
    alone = [name for name in services if name in VERSION_PATHS] == [service]
    return (f"/{service}", "") if alone else (f"/{service}",)


def _open_paths(services: tuple[str, ...]) -> frozenset[str]:
    return OPEN_PATHS | {
        f"{prefix}{path}"
        for service, paths in VERSION_PATHS.items()
        if service in services
        for prefix in _prefixes(service, services)
        for path in paths
    }
