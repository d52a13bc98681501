"""Which certificates and keys are taken, and what is said of others; made by openssl as operators make them."""

import ssl
import subprocess
from pathlib import Path

import pytest

from roost.platform.errors import BadRequest
from roost.platform.tls import ListenerTls, client_context

KEYS = {
    "rsa": "openssl genpkey -algorithm RSA -pkeyopt rsa_keygen_bits:2048",
    "rsa-pkcs1": "openssl rsa -traditional -in rsa.key",
    "ec": "openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256",
    "ec-sec1": "openssl ecparam -name prime256v1 -genkey",
    "p384": "openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-384",
    "p521": "openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-521",
    "ed25519": "openssl genpkey -algorithm ed25519",
    "ed448": "openssl genpkey -algorithm ed448",
    "password": "openssl genpkey -algorithm ed25519 -aes256 -pass pass:x",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """NAME.key of each kind, and NAME.pem, a certificate of that key."""
    folder = tmp_path_factory.mktemp("tls")
    for name, command in KEYS.items():
        subprocess.run(f"{command} -out {name}.key", shell=True, check=True, capture_output=True, cwd=folder)
        subprocess.run(
            f"openssl req -x509 -new -key {name}.key -passin pass:x -out {name}.pem -days 2 -subj /CN=roost",
            shell=True, check=True, capture_output=True, cwd=folder,
        )  # fmt: skip
    (folder / "empty").touch()
    (folder / "binary").write_bytes(b"\xff\xfe\x00")
    (folder / "broken.pem").write_text("-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n")
    return folder


@pytest.mark.parametrize("name", ["rsa", "rsa-pkcs1", "ec", "ec-sec1", "p384", "ed25519"])
def test_a_key_that_the_listeners_read_is_taken(folder: Path, name: str) -> None:
    ListenerTls(cert=str(folder / f"{name}.pem"), key=str(folder / f"{name}.key")).check()


@pytest.mark.parametrize(
    ("cert", "key", "agent_ca", "said"),
    [
        ("p521.pem", "p521.key", None, "expected a key for RSA, for EC on P-256 or P-384, or for Ed25519"),
        ("ed448.pem", "ed448.key", None, "expected a key for RSA, for EC on P-256 or P-384, or for Ed25519"),
        ("password.pem", "password.key", None, "the key has a password"),
        ("rsa.pem", "ed25519.key", None, "with --tls-cert|it is not the key of --tls-cert"),
        ("ec.pem", "p384.key", None, "it is not the key of --tls-cert|with --tls-cert"),
        ("rsa.pem", "rsa.pem", None, r"--tls-key .*expected a private key in PEM .* found CERTIFICATE"),
        ("rsa.key", "rsa.key", None, r"--tls-cert .*expected a certificate in PEM"),
        ("nosuch", "rsa.key", None, r"--tls-cert .*nosuch: No such file"),
        ("rsa.pem", "nosuch", None, r"--tls-key .*nosuch: No such file"),
        ("rsa.pem", "empty", None, "found no PEM"),
        ("rsa.pem", "binary", None, "expected PEM"),
        ("rsa.pem", "rsa.key", "rsa.key", r"--agent-ca .*expected certificates in PEM"),
        ("rsa.pem", "rsa.key", "broken.pem", r"--agent-ca .*no certificate that can be read"),
    ],
)
def test_what_cannot_be_used_is_said_with_its_file(
    folder: Path, cert: str, key: str, agent_ca: str | None, said: str
) -> None:
    ca = None if agent_ca is None else str(folder / agent_ca)
    with pytest.raises(BadRequest, match=said):
        ListenerTls(cert=str(folder / cert), key=str(folder / key), agent_ca=ca).check()


def test_a_client_trusts_whom_it_is_told(folder: Path) -> None:
    assert client_context(None, None, None) is None
    context = client_context(str(folder / "rsa.pem"), str(folder / "ec.pem"), str(folder / "ec.key"))
    assert context is not None
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)
    assert [ca["subject"] for ca in context.get_ca_certs()] == [((("commonName", "roost"),),)]
    with pytest.raises(BadRequest, match="--ca-file"):
        client_context(str(folder / "nosuch"), None, None)
    with pytest.raises(BadRequest, match=r"--key .*password"):
        client_context(None, str(folder / "password.pem"), str(folder / "password.key"))
