"""How a process makes itself known to the Network API: a token from a file, or one that Keystone gives."""

import ssl
from collections.abc import Mapping
from pathlib import Path

import structlog

from roost.cli.keystone import Credentials, KeystoneAway, KeystoneRefused, credentials_of, get_token
from roost.clients.network_api import NetworkApi, TokenGiver
from roost.network.settings import NetworkSettings
from roost.platform.errors import BadRequest, RoostError
from roost.platform.http_sessions import HttpSession
from roost.seams.agent import NetworkAway, NetworkRefused

CHECK_TIMEOUT_S = 5.0

log = structlog.get_logger()


class CredentialsMissing(RoostError):
    """A conductor must have network credentials and has none."""


def network_api(
    url: str,
    token_file: Path | None,
    environment: Mapping[str, str],
    *,
    timeout_s: float,
    tls: ssl.SSLContext | None = None,
) -> NetworkApi:
    """Return the Network API with the token of the file, or else of the OS_… variables, or none. Raises BadRequest."""
    if not url.startswith(("http://", "https://")):
        raise BadRequest(f"network url {url!r}: expected an address: http://127.0.0.1:9696")
    if token_file is not None:
        return NetworkApi(url, _from_file(token_file), timeout_s=timeout_s, tls=tls)
    try:
        credentials = credentials_of(environment)
    except KeystoneRefused as error:
        raise BadRequest(str(error)) from error
    give_token = None if credentials is None else _from_keystone(credentials)
    return NetworkApi(url, give_token, timeout_s=timeout_s, tls=tls)


def conductor_network_api(settings: NetworkSettings, environment: Mapping[str, str]) -> NetworkApi | None:
    """Return the Network API that conductors have credentials for; None where it is the same Roost's. BadRequest."""
    if not settings.url:
        return None
    token_file = Path(settings.token_file) if settings.token_file else None
    return network_api(settings.url, token_file, environment, timeout_s=CHECK_TIMEOUT_S)


async def require_credentials(settings: NetworkSettings, environment: Mapping[str, str]) -> None:
    """Raise CredentialsMissing where conductors must have network credentials and have none.

    A service that does not answer is no reason.
    """
    api = conductor_network_api(settings, environment)
    if api is None or settings.credentials != "require":
        return
    try:
        await api.check()
    except NetworkAway as error:
        log.warning("network credentials are tried later", reason=str(error))
    except NetworkRefused as error:
        raise CredentialsMissing(
            f'[network] credentials = "require", and the conductor has none for {settings.url}: {error}. Set '
            "[network] token_file, or OS_AUTH_URL and what belongs to it"
        ) from error
    finally:
        await api.close()


def _from_file(file: Path) -> TokenGiver:
    """Return the giver of the file's token, read whenever one is needed: it may be replaced meanwhile."""

    async def give(_session: HttpSession) -> str:
        return _read(file)

    return give


def _read(file: Path) -> str:
    """Return the token. Raises NetworkRefused."""
    try:
        token = file.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "expected a token"
        raise NetworkRefused(f"{file}: {reason}", status=401) from error
    if not token or not token.isascii() or not token.isprintable():
        raise NetworkRefused(f"{file}: expected a token", status=401)
    return token


def _from_keystone(credentials: Credentials) -> TokenGiver:
    async def give(session: HttpSession) -> str:
        try:
            return await get_token(session, credentials)
        except KeystoneAway as error:
            raise NetworkAway(str(error)) from error
        except KeystoneRefused as error:
            raise NetworkRefused(str(error), status=401) from error

    return give
