"""The section `[cors]` of roost.toml. Source: openstack-placement 16.0.0 for the defaults."""

from msgspec import Struct


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
