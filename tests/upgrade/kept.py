"""The kept release: the source of an earlier Roost, of which every commit has to be an upgrade under load.

`make keep-release RELEASE=COMMIT` keeps another one. It runs in the same virtual environment, so it has to do with its
packages: when those of pyproject.toml change too much for it, keep a younger one.

Older releases are not upgraded in one step, so migrations up to those of the kept release are not needed: they can be
deleted, but for a `NNNN_first.py` with the revision of the last one.
"""

import io
import lzma
import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from tests import postgres_servers

ROOT = Path(__file__).parents[2]
ARCHIVE = Path(__file__).with_name("kept-release.tar.xz")
MIGRATE = "import sys; from roost.platform.migrate import upgrade; upgrade(sys.argv[1], sys.argv[2:])"


def keep(commit: str) -> str:
    """Write the archive of a commit's source, the same bytes whenever it is done; returns the commit's whole name."""
    words = ["git", "-C", str(ROOT)]
    name = subprocess.run([*words, "rev-parse", f"{commit}^{{commit}}"], check=True, capture_output=True, text=True)
    archive = [*words, "archive", "--format=tar", name.stdout.strip(), "src", "pyproject.toml"]
    tar = subprocess.run(archive, check=True, capture_output=True).stdout
    ARCHIVE.write_bytes(lzma.compress(tar, preset=9 | lzma.PRESET_EXTREME))
    return name.stdout.strip()


def commit_kept() -> str:
    """Return the commit that is kept: git's archives begin with its name."""
    with tarfile.open(ARCHIVE) as archive:
        return str(archive.pax_headers["comment"])


def unpack(directory: Path) -> Path:
    """Unpack the kept release; returns what has to be on PYTHONPATH."""
    with tarfile.open(fileobj=io.BytesIO(lzma.decompress(ARCHIVE.read_bytes()))) as archive:
        postgres_servers.unpack(archive, directory)
    return directory / "src"


def migrate_as_kept(dsn: str) -> None:
    """Have the kept release make its schemas in a database, or bring what an older one left up to its own."""
    with tempfile.TemporaryDirectory() as name:
        source = unpack(Path(name))
        schemas = sorted({path.parents[1].name for path in source.glob("roost/*/migrations/[0-9]*.py")})
        environment = {**os.environ, "PYTHONPATH": str(source)}
        subprocess.run([sys.executable, "-c", MIGRATE, dsn, *schemas], check=True, env=environment)


if __name__ == "__main__":
    sys.stdout.write(f"{keep(sys.argv[1])} is kept, {ARCHIVE.stat().st_size // 1000} kB\n")
