"""The listeners of a process: granian's servers, each with its limits of connections and its certificates."""

import asyncio
from dataclasses import dataclass
from pathlib import Path

import structlog
from granian.constants import HTTPModes, Interfaces, SSLProtocols
from granian.http import HTTP1Settings
from granian.server.embed import Server
from starlette.types import ASGIApp

from roost.cli.serving.roles import ProcessConfig
from roost.cli.serving.wiring import Parts, agent_listener, main_listener, metrics_listener
from roost.platform.connection_limits import ConnectionLimits, raise_descriptor_limit, reserve
from roost.platform.errors import reason_of
from roost.platform.loopback import is_loopback
from roost.platform.tls import ListenerTls

METRICS_CONNECTIONS_MAX = 64
BACKLOG = 4096
"""Connections that wait to be accepted; the kernel may allow fewer (net.core.somaxconn)."""
RENEWED_S = 1.0
"""After so long a server with new certificates listens; the one with the old ones ends after 3.5 s (granian)."""

log = structlog.get_logger()


@dataclass(frozen=True)
class Listener:
    """A server. limits: None for one that few may use. tls: None for http; its agent_ca: every client needs a
    certificate of those.
    """

    server: Server
    limits: ConnectionLimits | None
    tls: ListenerTls | None

    def renew_certificates(self) -> None:
        """Serve new connections with the files as they are now; what is in flight ends as it began."""
        if self.tls is None:
            return
        try:
            _load_certificates(self.server, self.tls)
        except OSError as error:  # ssl.SSLError is one
            log.error("the certificates cannot be used: the listener keeps those it has", reason=reason_of(error))
            return
        self.server.reload()  # type: ignore[no-untyped-call]
        if self.limits is not None:
            asyncio.get_running_loop().call_later(RENEWED_S, self.limits.limit_answers)


def list_listeners(config: ProcessConfig, parts: Parts) -> list[Listener]:
    """Return those of the process's role, none for some. Processes of a role share one port (SO_REUSEPORT)."""
    listeners = []
    tls = config.tls
    if config.role == "api":
        open_tls = None if tls is None else ListenerTls(cert=tls.cert, key=tls.key)
        listeners.append(_limited(main_listener(config, parts), config.host, config.port, parts, open_tls))
    if config.role == "agent-api":
        app = agent_listener(config, parts)
        listeners.append(_limited(app, config.agent_host, config.agent_port, parts, tls))
    if host := config.metrics_host:  # it speaks TLS where others than this machine reach it
        open_tls = None if tls is None or is_loopback(host) else ListenerTls(cert=tls.cert, key=tls.key)
        app = metrics_listener(config, parts)
        server = _new_server(app, host, config.metrics_port, parts, open_tls, connections_max=METRICS_CONNECTIONS_MAX)
        listeners.append(Listener(server, None, open_tls))
    return listeners


def _limited(app: ASGIApp, host: str, port: int, parts: Parts, tls: ListenerTls | None) -> Listener:
    settings = parts.settings.listeners
    connections_max = raise_descriptor_limit(settings)
    limits = ConnectionLimits(parts.drain.layer(app), settings, port=port, connections_max=connections_max)
    accepted_max = connections_max + reserve(connections_max)
    return Listener(_new_server(limits, host, port, parts, tls, connections_max=accepted_max), limits, tls)


def _new_server(
    app: ASGIApp, host: str, port: int, parts: Parts, tls: ListenerTls | None, *, connections_max: int
) -> Server:
    """Return a server. HTTP/1.1 alone: granian waits for ever for the first bytes of what may become HTTP/2."""
    server = Server(
        app,
        host,
        port,
        interface=Interfaces.ASGINL,
        http=HTTPModes.http1,
        http1_settings=HTTP1Settings(header_read_timeout=int(parts.settings.listeners.idle_timeout_s * 1000)),
        websockets=False,
        log_enabled=False,
        backlog=BACKLOG,
        backpressure=connections_max,
    )
    if tls is not None:
        _load_certificates(server, tls)
    return server


def _load_certificates(server: Server, tls: ListenerTls) -> None:
    """Have the server read the files. Raises OSError, whose kind ssl.SSLError is."""
    agent_ca = None if tls.agent_ca is None else Path(tls.agent_ca)
    server.build_ssl_context(
        Path(tls.cert), Path(tls.key), None, SSLProtocols.tls13, agent_ca, [], agent_ca is not None
    )
