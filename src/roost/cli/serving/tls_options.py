"""The options of `roost` that say what its listeners and clients show and trust, checked together."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from roost.cli import endings
from roost.platform.errors import BadRequest
from roost.platform.tls import ListenerTls, client_context

if TYPE_CHECKING:
    import ssl

TlsCert = Annotated[
    Path | None, typer.Option(help="Speak https on both listeners, with this certificate and its chain, in PEM.")
]
TlsKey = Annotated[Path | None, typer.Option(help="The certificate's private key, without a password.")]
AgentCa = Annotated[
    Path | None, typer.Option(help="Agents need a certificate that one of these signed, besides their token.")
]
ClientCert = Annotated[Path | None, typer.Option(help="A certificate to show where clients are asked for one.")]
ClientKey = Annotated[Path | None, typer.Option(help="The certificate's private key.")]


def listener_tls(cert: Path | None, key: Path | None, agent_ca: Path | None) -> ListenerTls | None:
    """Return the files of listeners that speak TLS; None for http. Raises BadParameter for half of a pair."""
    if (cert is None) != (key is None):
        raise typer.BadParameter("--tls-cert and --tls-key: expected both, or neither")
    if cert is None or key is None:
        if agent_ca is not None:
            raise typer.BadParameter(
                "--agent-ca asks agents for certificates: expected --tls-cert and --tls-key as well"
            )
        return None
    ca = None if agent_ca is None else str(agent_ca.absolute())
    return ListenerTls(cert=str(cert.absolute()), key=str(key.absolute()), agent_ca=ca)


def client_tls(ca_file: str | None, cert: Path | None, key: Path | None) -> "ssl.SSLContext | None":
    """Return what a client shows and trusts besides the machine's own; ends the command with a sentence."""
    check_pair(cert, key)
    try:
        return client_context(ca_file, path_text(cert), path_text(key))
    except BadRequest as error:
        endings.fail(error)


def check_pair(cert: Path | None, key: Path | None) -> None:
    """Raise BadParameter for a certificate without its key, or the other way round."""
    if (cert is None) != (key is None):
        raise typer.BadParameter("--cert and --key: expected both, or neither")


def path_text(file: Path | None) -> str | None:
    """Return the path as text; None for none."""
    return None if file is None else str(file)
