"""The built-in test image: a kernel, and busybox packed around it, which says its addresses and answers an echo port.

It is packed at first use, from the running kernel's own files where they are there, else from the distribution's cloud
kernel, which is downloaded and unpacked beside it and never installed.
"""

import asyncio
import fcntl
import gzip
import lzma
import os
import platform
import re
import shutil
import stat
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from roost.agent.drivers.programs import ProgramFailed, run_program

CACHE = Path("/var/cache/roost")
VERSION = "5"
"""Of what is packed: another one is packed anew."""
MODULES = ("virtio_pci", "virtio_net", "virtio_blk", "button", "evdev")
BUSYBOX = (Path("/bin/busybox"), Path("/usr/bin/busybox"))
PACKAGE = "linux-image-cloud-amd64"
DOWNLOAD_S = 300.0
SCRIPTS = Path(__file__).parent
ECHO_PORT, SHELL_PORT = 7, 23
"""Where a guest answers what it is sent, and has a shell for whoever reaches it: it is for tests alone."""
DEPENDS = re.compile(rb"\0depends=([^\0]*)\0")


@dataclass(frozen=True)
class BootFiles:
    """What the built-in image boots from."""

    kernel: Path
    initrd: Path


async def ensure_image(cache: Path = CACHE) -> BootFiles:
    """Return the image's files, which are packed if they are missing; one agent at a time does that.

    Raises ProgramFailed, in a sentence that says what lacks.
    """
    folder = cache / f"image-{VERSION}"
    files = BootFiles(folder / "kernel", folder / "initrd")
    if files.initrd.exists():
        return files
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with (cache / "lock").open("w") as lock:
            await asyncio.to_thread(fcntl.flock, lock, fcntl.LOCK_EX)
            if not files.initrd.exists():
                await _make(folder, cache)
    except OSError as error:
        raise ProgramFailed(f"the built-in image cannot be packed in {cache}: {error.strerror or error}") from error
    return files


async def _make(folder: Path, cache: Path) -> None:
    busybox = next((path for path in BUSYBOX if path.exists()), None)
    if busybox is None:
        raise ProgramFailed("the built-in image needs busybox: apt install busybox-static")
    release = platform.release()
    kernel, modules = Path("/boot", f"vmlinuz-{release}"), Path("/lib/modules", release)
    with tempfile.TemporaryDirectory(dir=cache) as temporary:
        if not (kernel.exists() and modules.is_dir()):
            kernel, modules = await _download_kernel(Path(temporary))
        half = Path(temporary, "half")
        half.mkdir(mode=0o755)
        initrd = await asyncio.to_thread(_pack_initrd, busybox, modules)
        shutil.copyfile(kernel, half / "kernel")
        (half / "initrd").write_bytes(initrd)
        for path in (half / "kernel", half / "initrd"):
            path.chmod(0o644)  # QEMU's account reads them
        shutil.rmtree(folder, ignore_errors=True)
        half.rename(folder)


async def _download_kernel(temporary: Path) -> tuple[Path, Path]:
    """Return the distribution's cloud kernel and the folder of its modules."""
    depends = await run_program("apt-cache", "depends", PACKAGE)
    package = re.search(r"Depends: (linux-image-\S+)", depends)
    if package is None:
        raise ProgramFailed(f"the built-in image needs a kernel, and apt knows no {PACKAGE}: apt update")
    await run_program("apt-get", "download", package[1], timeout_s=DOWNLOAD_S, directory=temporary)
    await run_program("dpkg-deb", "-x", str(next(temporary.glob("*.deb"))), str(temporary / "package"))
    return next(temporary.glob("package/boot/vmlinuz-*")), next(temporary.glob("package/**/lib/modules/*"))


def _pack_initrd(busybox: Path, modules: Path) -> bytes:
    """Return the initramfs, compressed."""
    contents = list_modules(modules)
    entries: dict[str, tuple[int, bytes]] = {
        **dict.fromkeys(("bin", "dev", "etc", "modules"), (stat.S_IFDIR | 0o755, b"")),
        "init": (stat.S_IFREG | 0o755, (SCRIPTS / "init.sh").read_bytes()),
        "dhcp": (stat.S_IFREG | 0o755, (SCRIPTS / "dhcp.sh").read_bytes()),
        "bin/busybox": (stat.S_IFREG | 0o755, busybox.read_bytes()),
        "bin/sh": (stat.S_IFLNK | 0o777, b"busybox"),
        "dev/console": (stat.S_IFCHR | 0o600, b""),
        "modules/order": (stat.S_IFREG | 0o644, "\n".join(contents).encode()),
        **{f"modules/{name}": (stat.S_IFREG | 0o644, content) for name, content in contents.items()},
    }
    return gzip.compress(b"".join(_archive(entries)), compresslevel=6)


def list_modules(folder: Path, names: tuple[str, ...] = MODULES) -> dict[str, bytes]:
    """Return those modules and what they depend on, each after what it needs; what the kernel has built in is left out.

    Debian's kernels have module files as .ko or .ko.xz.
    """
    paths = {path.name.split(".ko")[0].replace("-", "_"): path for path in folder.rglob("*.ko*")}
    contents: dict[str, bytes] = {}

    def add(name: str) -> None:
        path = paths.get(name.replace("-", "_"))
        if path is None or f"{name}.ko" in contents:
            return
        content = lzma.decompress(path.read_bytes()) if path.suffix == ".xz" else path.read_bytes()
        depends = DEPENDS.search(content)
        for other in (depends[1].decode() if depends else "").split(","):
            add(other)
        contents[f"{name}.ko"] = content

    for name in names:
        add(name)
    return contents


def _archive(entries: Mapping[str, tuple[int, bytes]]) -> Iterator[bytes]:
    """Yield a cpio archive, of the kind that the kernel reads: 'newc'. entries: path -> (mode, content)."""
    for inode, (path, (mode, content)) in enumerate([*entries.items(), ("TRAILER!!!", (0, b""))], start=1):
        console = (5, 1) if stat.S_ISCHR(mode) else (0, 0)
        fields = (inode, mode, 0, 0, 1, 0, len(content), 0, 0, *console, len(path) + 1, 0)
        head = b"070701" + "".join(f"{field:08X}" for field in fields).encode() + path.encode() + b"\0"
        yield head + b"\0" * (-len(head) % 4) + content + b"\0" * (-len(content) % 4)


def is_cached(cache: Path = CACHE) -> bool:
    """Return whether the image was packed before."""
    return os.access(cache / f"image-{VERSION}" / "initrd", os.R_OK)
