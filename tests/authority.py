"""A certificate authority for a test, made by openssl as operators make one."""

import subprocess
from pathlib import Path


class Authority:
    """Its certificate is `NAME.pem` in the folder; what it signs is `NAME.pem` with `NAME.key` there."""

    def __init__(self, folder: Path, name: str = "ca") -> None:
        self._folder = folder
        self._name = name
        self._openssl(f"req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN={name}"
                      f" -keyout {name}.key -out {name}.pem")  # fmt: skip
        self.cert = str(folder / f"{name}.pem")

    def sign(self, name: str, address: str = "127.0.0.1") -> tuple[str, str]:
        """(certificate, key) for the address."""
        extensions = self._folder / f"{name}.ext"
        extensions.write_text(f"subjectAltName = IP:{address}\nextendedKeyUsage = serverAuth, clientAuth\n")
        self._openssl(f"req -newkey rsa:2048 -nodes -subj /CN={name} -keyout {name}.key -out {name}.csr")
        self._openssl(f"x509 -req -in {name}.csr -CA {self._name}.pem -CAkey {self._name}.key -CAcreateserial -days 2"
                      f" -extfile {extensions} -out {name}.pem")  # fmt: skip
        return str(self._folder / f"{name}.pem"), str(self._folder / f"{name}.key")

    def _openssl(self, arguments: str) -> None:
        subprocess.run(["openssl", *arguments.split()], check=True, capture_output=True, cwd=self._folder)
