"""Credentials of an OpenStack cloud from the usual OS_… variables, and tokens for them. Source: Identity API v3."""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from roost.cli.remote_errors import detail_of
from roost.platform.errors import RoostError
from roost.platform.http_sessions import HttpSession, Unanswered


class KeystoneRefused(RoostError):
    """Keystone gives no token for the OS_… variables."""


class KeystoneAway(KeystoneRefused):
    """Keystone does not answer now."""


class Credentials(Struct, frozen=True):
    """Where tokens are had, and the body that asks for one."""

    tokens_url: str
    body: dict[str, Any]


class Access(Struct, frozen=True):
    """How a command makes itself known to an API. token: sent as it is; credentials: tokens are had from Keystone.

    ca_file: certificates to trust instead of the system's. cert, key: whom to be, where a listener asks for that.
    """

    token: str | None = None
    credentials: Credentials | None = None
    ca_file: str | None = None
    cert: str | None = None
    key: str | None = None


def access_of(
    token: str | None,
    ca_file: str | None,
    environment: Mapping[str, str],
    *,
    cert: str | None = None,
    key: str | None = None,
) -> Access:
    """Return a command's access by its options and the OS_… variables. Raises KeystoneRefused."""
    return Access(token, None if token else credentials_of(environment), ca_file, cert, key)


def credentials_of(environment: Mapping[str, str]) -> Credentials | None:
    """Return a password or an application credential; None where OS_AUTH_URL is not set. Raises KeystoneRefused."""
    url = environment.get("OS_AUTH_URL", "").rstrip("/")
    if not url:
        return None
    tokens_url = f"{url if url.endswith('/v3') else f'{url}/v3'}/auth/tokens"
    secret = environment.get("OS_APPLICATION_CREDENTIAL_SECRET")
    if secret is not None:
        application: dict[str, Any] = {"secret": secret}
        if credential_id := environment.get("OS_APPLICATION_CREDENTIAL_ID"):
            application["id"] = credential_id
        else:
            name = _required(environment, "OS_APPLICATION_CREDENTIAL_NAME")
            application |= {"name": name, "user": _user(environment)}
        identity = {"methods": ["application_credential"], "application_credential": application}
        return Credentials(tokens_url, {"auth": {"identity": identity}})
    user = {**_user(environment), "password": _required(environment, "OS_PASSWORD")}
    identity = {"methods": ["password"], "password": {"user": user}}
    return Credentials(tokens_url, {"auth": {"identity": identity, "scope": _scope(environment)}})


async def get_token(session: HttpSession, credentials: Credentials) -> str:
    """Return a new token. Raises KeystoneRefused."""
    url = credentials.tokens_url
    try:
        reply = await session.ask("POST", url, credentials.body, with_token=False)
    except Unanswered as error:
        raise KeystoneAway(f"POST {url} failed: {error}") from error
    if reply.status == 401:
        culprit = "the user, its password or secret, or the project is wrong"
        raise KeystoneRefused(f"Keystone at {url} refuses the OS_… variables: {culprit}")
    if reply.status != 201 or "X-Subject-Token" not in reply.headers:
        kind = KeystoneAway if reply.status in (408, 429) or reply.status >= 500 else KeystoneRefused
        raise kind(f"POST {url} was answered {reply.status}: {detail_of(reply.body)}")
    return reply.headers["X-Subject-Token"]


def _user(environment: Mapping[str, str]) -> dict[str, Any]:
    if user_id := environment.get("OS_USER_ID"):
        return {"id": user_id}
    return {"name": _required(environment, "OS_USERNAME"), "domain": _domain(environment, "USER")}


def _scope(environment: Mapping[str, str]) -> dict[str, Any]:
    if environment.get("OS_SYSTEM_SCOPE"):
        return {"system": {"all": True}}
    if project_id := environment.get("OS_PROJECT_ID"):
        return {"project": {"id": project_id}}
    return {"project": {"name": _required(environment, "OS_PROJECT_NAME"), "domain": _domain(environment, "PROJECT")}}


def _domain(environment: Mapping[str, str], whose: str) -> dict[str, str]:
    if name := environment.get(f"OS_{whose}_DOMAIN_NAME"):
        return {"name": name}
    return {"id": environment.get(f"OS_{whose}_DOMAIN_ID") or environment.get("OS_DEFAULT_DOMAIN") or "default"}


def _required(environment: Mapping[str, str], name: str) -> str:
    value = environment.get(name)
    if not value:
        raise KeystoneRefused(f"OS_AUTH_URL is set, and {name} is not: set it, or give --token")
    return value
