"""The kept release: the source of an earlier Roost, of which every commit has to be an upgrade under load.

`make keep-release RELEASE=COMMIT` keeps another one. It runs in the same virtual environment, so it has to do with its
packages: when those of pyproject.toml change too much for it, keep a younger one.
"""

import io
import lzma
import subprocess
import sys
import tarfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
ARCHIVE = Path(__file__).with_name("kept-release.tar.xz")


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
        archive.extractall(directory, filter="data")
    return directory / "src"


if __name__ == "__main__":
    sys.stdout.write(f"{keep(sys.argv[1])} is kept, {ARCHIVE.stat().st_size // 1000} kB\n")
