"""TLS: the files that a listener and a client are given, checked before they are used, in sentences."""

import re
from base64 import b64decode
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from roost.platform.errors import BadRequest

if TYPE_CHECKING:
    import ssl

BLOCK = r"-----BEGIN ([A-Z0-9 ]+)-----"
KEY = r"-----BEGIN ((?:RSA |EC )?PRIVATE KEY)-----([A-Za-z0-9+/=\s]+)-----END"
"""PKCS #8, PKCS #1 and SEC 1: what the listeners read."""

ALGORITHMS = tuple(
    bytes.fromhex(oid) for oid in ("06092a864886f70d010101", "06082a8648ce3d030107", "06052b81040022", "06032b6570")
)
"""DER of the names of RSA, P-256, P-384 and Ed25519. Tried with granian 2.8: a key of another kind kills its worker."""


class ListenerTls(Struct, frozen=True, kw_only=True):
    """The files of listeners that speak TLS, all PEM. cert: with its chain, its own first.

    agent_ca: agents need a certificate that one of these signed; None: they need none.
    """

    cert: str
    key: str
    agent_ca: str | None = None

    def check(self) -> None:
        """Raise BadRequest, which names the file and what is wrong with it."""
        import ssl

        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        _load_pair(context, self.cert, self.key, options=("--tls-cert", "--tls-key"))
        kind, text = re.findall(KEY, Path(self.key).read_text())[0]
        if kind != "RSA PRIVATE KEY" and not any(name in b64decode(text) for name in ALGORITHMS):
            raise BadRequest(f"--tls-key {self.key}: expected a key for RSA, for EC on P-256 or P-384, or for Ed25519")
        if self.agent_ca is not None:
            _load_ca(context, self.agent_ca, option="--agent-ca")


def client_context(cafile: str | None, cert: str | None, key: str | None) -> "ssl.SSLContext | None":
    """Return what a client needs besides the machine's own certificates; None for nothing.

    cafile: whom to trust instead. cert, key: whom to be, where that is asked for. Raises BadRequest.
    """
    if cafile is None and cert is None:
        return None
    import ssl

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if cafile is None:
        context.load_default_certs()
    else:
        _load_ca(context, cafile, option="--ca-file")
    if cert is not None and key is not None:
        _load_pair(context, cert, key, options=("--cert", "--key"))
    return context


def peer_contexts(cafile: str, cert: str, key: str) -> "tuple[ssl.SSLContext, ssl.SSLContext]":
    """Return what an agent listens with, and what it connects with: both ends show certificates, and check them.

    The files are those of client_context. Raises BadRequest.
    """
    import ssl

    listening = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    listening.verify_mode = ssl.CERT_REQUIRED
    _load_ca(listening, cafile, option="--ca-file")
    _load_pair(listening, cert, key, options=("--cert", "--key"))
    connecting = client_context(cafile, cert, key)
    assert connecting is not None
    return listening, connecting


def check_cafile(cafile: str, *, section: str) -> None:
    """Raise BadRequest, which names the section of roost.toml, for a file without certificates; "" is none."""
    import ssl

    if cafile:
        _load_ca(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), cafile, option=f"[{section}] cafile")


def unverified_context() -> "ssl.SSLContext":
    """Return a client's context that takes any certificate: for a process that asks whether its own child answers."""
    import ssl

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def _load_ca(context: "ssl.SSLContext", file: str, *, option: str) -> None:
    import ssl

    if "CERTIFICATE" not in _blocks(file, option=option):
        raise BadRequest(f"{option} {file}: expected certificates in PEM")
    try:
        context.load_verify_locations(file)
    except ssl.SSLError as error:
        raise BadRequest(f"{option} {file}: no certificate that can be read: {error.reason or error}") from error


def _load_pair(context: "ssl.SSLContext", cert: str, key: str, *, options: tuple[str, str]) -> None:
    import ssl

    if "CERTIFICATE" not in _blocks(cert, option=options[0]):
        raise BadRequest(f"{options[0]} {cert}: expected a certificate in PEM")
    blocks = _blocks(key, option=options[1])
    if "ENCRYPTED" in Path(key).read_text():
        raise BadRequest(
            f"{options[1]} {key}: the key has a password: expected one without, as `openssl pkey -in {key}` writes it"
        )
    if not re.search(KEY, Path(key).read_text()):
        raise BadRequest(
            f"{options[1]} {key}: expected a private key in PEM (PKCS #8, or an RSA or EC key in PKCS #1 or SEC 1), "
            f"found {', '.join(blocks) or 'no PEM'}"
        )
    try:
        context.load_cert_chain(cert, key)
    except ssl.SSLError as error:
        reason = "it is not the key of" if error.reason == "KEY_VALUES_MISMATCH" else f"{error.reason or error}, with"
        raise BadRequest(f"{options[1]} {key}: {reason} {options[0]} {cert}") from error


def _blocks(file: str, *, option: str) -> list[str]:
    """Return what the PEM file says that it has. Raises BadRequest for one that cannot be read."""
    try:
        return re.findall(BLOCK, Path(file).read_text())
    except (OSError, UnicodeDecodeError) as error:
        raise BadRequest(f"{option} {file}: {getattr(error, 'strerror', None) or 'expected PEM'}") from error
