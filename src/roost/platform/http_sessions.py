"""Sessions in which Roost asks other services over HTTP: whom they trust, and how long and how often they ask."""

import ssl

import aiohttp

from roost.platform.tls import client_context


def new_session(
    *, timeout_s: float, connections_max: int = 100, tls: ssl.SSLContext | bool = True, kept_s: float = 15.0
) -> aiohttp.ClientSession:
    """Return a session without cookies, as many callers share it. kept_s: for so long an idle connection is kept."""
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=connections_max, keepalive_timeout=kept_s, ssl=tls),
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=aiohttp.ClientTimeout(total=timeout_s),
    )


def trust(cafile: str, *, insecure: bool = False) -> ssl.SSLContext | bool:
    """Return whom a session trusts: the certificates of cafile, or the machine's; everybody if insecure."""
    return False if insecure else client_context(cafile or None, None, None) or True
