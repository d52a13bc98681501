"""systemd starts, restarts and stops the units of `deploy/`: a systemd of the test's own, in namespaces, as root."""

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import sysconfig
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.ports import free_port
from tests.postgres_servers import PG_BIN
from tests.processes import children_of, words_of

from roost.platform.postgres import PrivatePostgres

ROOT = Path(__file__).parents[1]
SYSTEMD = Path("/lib/systemd/systemd")
WAIT_S = 60.0

MACHINE = """
set -e
mount --make-rprivate /
mkdir "$1/groups"
mount -t cgroup2 cgroup2 "$1/groups"
group="$1/groups/roost-units-$$"
mkdir "$group"
sh -c 'echo $$ > "$1/cgroup.procs" && shift && exec unshare --mount --cgroup --pid --fork --kill-child --uts "$@"' \
    sh "$group" sh "$1/system.sh" || true
left=50
until find "$group" -depth -type d -exec rmdir {} + 2>/dev/null; do sleep 0.1; left=$((left - 1)); [ $left -gt 0 ]; done
"""
"""$1: the test's folder. Runs SYSTEM in a control group, which goes when its processes have gone."""

SYSTEM = """
set -e
mount --make-rprivate /
mkdir {own}
mount -t tmpfs -o mode=755 tmpfs {own}
cd {own}
mkdir root upper work
chmod 755 root upper
mount -t overlay -o lowerdir=/,upperdir=upper,workdir=work overlay root
cd root
for folder in dev run tmp var/tmp; do
    mount -t tmpfs -o mode=1777 tmpfs $folder
done
mount --rbind /dev dev
mount -t tmpfs -o mode=1777 tmpfs dev/shm
mkdir -p opt/roost/python opt/roost/packages opt/roost/source run/old
mount --bind {python} opt/roost/python
mount --bind {packages} opt/roost/packages
mount --bind {source} opt/roost/source
cp -r {files}/. .
pivot_root . run/old
mount -t proc proc /proc
mount -t sysfs -o ro sysfs /sys
mount -t cgroup2 cgroup2 /sys/fs/cgroup
mount --bind /proc/sys /proc/sys
mount -o remount,bind,ro /proc/sys
umount --recursive --lazy /run/old
systemd-sysusers /etc/sysusers.d/roost.conf
systemd-tmpfiles --create /etc/tmpfiles.d/roost.conf
chgrp -R roost /etc/roost
export container=roost SYSTEMD_UNIT_PATH=/run/units
exec {systemd} --system --unit=machine.target --log-target=console --show-status=no
"""
"""A root of its own over the machine's: nothing outside is written, not even below /tmp, and no unit there is known."""

PROGRAM = """#!/bin/sh
export PYTHONPATH=/opt/roost/source:/opt/roost/packages LD_LIBRARY_PATH=/opt/roost/python/lib
exec /opt/roost/python/bin/{python} -c 'from roost.cli import entry; entry.{function}()' "$@"
"""

TARGETS = ("machine", "sysinit", "basic", "shutdown", "network-online", "timers")
"""What services need by themselves and the units name. They start nothing here."""

DROP_IN = "[Service]\nStandardOutput=append:/var/log/roost/units.log\nStandardError=append:/var/log/roost/units.log\n"
"""There is no journal here."""


class Machine:
    """A running systemd, seen from outside of its namespaces. outer: the process that cleans up after it."""

    def __init__(self, folder: Path, outer: subprocess.Popen[bytes]) -> None:
        self._folder, self._outer = folder, outer
        self.pid = 0

    def wait_until_up(self) -> None:
        """Return when systemd takes commands. Raises AssertionError with what was said, when it ended."""
        wait_for(lambda: self._outer.poll() is not None or self._find(), "systemd runs")
        assert self._outer.poll() is None, (self._folder / "machine.log").read_text()
        wait_for(lambda: self.systemctl("is-active", "machine.target", check=False) == "active", "systemd answers")

    def systemctl(self, *words: str, check: bool = True) -> str:
        """Return what `systemctl` prints."""
        enter = ["nsenter", f"--target={self.pid}", "--mount", "--pid", "--cgroup", "--uts"]
        done = subprocess.run([*enter, "systemctl", *words], capture_output=True, text=True, timeout=2 * WAIT_S)
        assert done.returncode == 0 or not check, (words, done.stderr, self.said())
        return done.stdout.strip()

    def property_of(self, unit: str, name: str) -> str:
        """Return one property of a unit."""
        return self.systemctl("show", f"--property={name}", "--value", unit)

    def run(self, *words: str) -> str:
        """Return what a command of the machine prints. Raises AssertionError when it fails."""
        enter = ["nsenter", f"--target={self.pid}", "--mount", "--pid", "--net", "--cgroup", "--uts"]
        done = subprocess.run([*enter, *words], capture_output=True, text=True, timeout=WAIT_S)
        assert done.returncode == 0, (words, done.stderr, self.said())
        return done.stdout.strip()

    def path(self, inside: str) -> Path:
        """Return where a file of the machine is, seen from outside."""
        return Path(f"/proc/{self.pid}/root{inside}")

    def said(self) -> str:
        """Return what the units' processes have printed."""
        log = self.path("/var/log/roost/units.log")
        return log.read_text() if log.exists() else ""

    def end(self) -> None:
        """Kill systemd, with which all its processes end."""
        for pid in children_of(self._outer.pid):
            os.kill(pid, signal.SIGKILL)
        self._outer.wait(timeout=WAIT_S)

    def _find(self) -> bool:
        """Return whether systemd runs, and keep its process id."""
        for pid in (pid for child in children_of(self._outer.pid) for pid in children_of(child)):
            if words_of(pid)[:1] == [str(SYSTEMD)]:
                self.pid = pid
        return bool(self.pid)


def wait_for(condition: Callable[[], Any], what: str) -> None:
    """Return when the condition holds."""
    deadline = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline, f"not so in time: {what}"
        time.sleep(0.1)


def write_files(folder: Path, dsn: str, port: int) -> None:
    """Write what an operator installs, as docs/howto/install.md says."""
    system, config, programs = (folder / name for name in ("run/units", "etc/roost", "opt/roost/bin"))
    for directory in (system, config, programs, folder / "etc/sysusers.d", folder / "etc/tmpfiles.d"):
        directory.mkdir(parents=True)
    for unit in [*ROOT.glob("deploy/*.service"), *ROOT.glob("deploy/*.timer")]:
        shutil.copy(unit, system)
    for kind in ("sysusers", "tmpfiles"):
        shutil.copy(ROOT / "deploy" / f"roost.{kind}", folder / "etc" / f"{kind}.d" / "roost.conf")
    for target in TARGETS:
        (system / f"{target}.target").write_text(f"[Unit]\nDescription={target} of the test\n")
    (system / "service.d").mkdir()
    (system / "service.d" / "log.conf").write_text(DROP_IN)
    (config / "roost.toml").write_text("")
    (config / "roost.env").write_text(f"SERVE_OPTIONS=all --listen 127.0.0.1:{port}\nROOST_DATABASE={dsn}\n")
    (config / "agent.env").write_text(f"AGENT_OPTIONS=--host rack1-h1 --api http://127.0.0.1:{port}\n")
    for name, function in (("roost", "run_roost"), ("roost-manage", "run_manage")):
        version = f"python3.{sys.version_info.minor}"
        (programs / name).write_text(PROGRAM.format(python=version, function=function))
        (programs / name).chmod(0o755)


@contextmanager
def machine_of(folder: Path, *before: str) -> Iterator[Machine]:
    """Run a systemd on the files that are in `folder`. before: words of a command that becomes it."""
    paths = {
        "own": folder / "own",
        "files": folder / "files",
        "python": sys.base_prefix,
        "packages": sysconfig.get_path("purelib"),
        "source": ROOT / "src",
        "systemd": SYSTEMD,
    }
    quoted = {name: shlex.quote(str(path)) for name, path in paths.items()}
    (folder / "system.sh").write_text(SYSTEM.format(**quoted))
    with (folder / "machine.log").open("wb") as log:
        command = [*before, "unshare", "--mount", "sh", "-c", MACHINE, "sh", str(folder)]
        machine = Machine(folder, subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL))
    try:
        machine.wait_until_up()
        yield machine
    finally:
        machine.end()


@pytest.fixture
def skip_without_systemd() -> None:
    """Skip where no systemd can run; in CI, one must."""
    missing = "" if SYSTEMD.exists() else f"{SYSTEMD} is not installed"
    if os.geteuid() != 0:
        pytest.skip("only root has namespaces and control groups of its own")
    tried = subprocess.run(["unshare", "--mount", "--cgroup", "--pid", "--fork", "--uts", "true"], capture_output=True)
    missing = missing or tried.stderr.decode()
    assert not (missing and os.environ.get("CI")), f"in CI a systemd must run: {missing}"
    if missing:
        pytest.skip(f"no systemd runs here: {missing}")


def hosts_of(port: int) -> list[str]:
    """Return the names of the hosts that Roost knows, none while it does not answer."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/placement/resource_providers", timeout=10) as answer:
            return [provider["name"] for provider in json.load(answer)["resource_providers"]]
    except OSError:
        return []


def answers(port: int) -> bool:
    """Return whether Roost is ready."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=10) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


@pytest.fixture
def tcp_dsn(data_dir: Path) -> Iterator[str]:
    """The address of a PostgreSQL that every user of the machine may use."""
    # Its port stays 5432, which names its socket; the address is one that no other test's server has.
    address = f"127.{os.getpid() >> 16 & 63 | 32}.{os.getpid() >> 8 & 255}.{os.getpid() & 255}"
    server = PrivatePostgres(data_dir, pg_bin=PG_BIN, settings={"fsync": "off", "listen_addresses": address})
    server.start()
    yield f"postgresql://roost@{address}/roost"
    server.stop()


def test_the_units_start_restart_and_stop(tmp_path: Path, tcp_dsn: str, skip_without_systemd: None) -> None:
    port = free_port()
    write_files(tmp_path / "files", tcp_dsn, port)
    with machine_of(tmp_path) as machine:
        machine.systemctl("start", "roost")
        assert answers(port), "it is started when it answers"
        first = int(machine.property_of("roost", "MainPID"))

        machine.systemctl("start", "roost-agent")
        wait_for(lambda: hosts_of(port) == ["rack1-h1"], "the agent's host is known")
        machine.systemctl("start", "roost-sync-aggregates.timer", "roost-sync-aggregates.service")
        assert machine.property_of("roost-sync-aggregates.service", "Result") == "success"

        machine.systemctl("kill", "--signal=KILL", "--kill-who=main", "roost")
        wait_for(lambda: machine.property_of("roost", "NRestarts") == "1" and answers(port), "it is started again")
        assert int(machine.property_of("roost", "MainPID")) != first

        machine.systemctl("stop", "roost", "roost-agent")
        for unit in ("roost", "roost-agent"):
            shown = [machine.property_of(unit, name) for name in ("ActiveState", "Result", "ExecMainStatus")]
            assert shown == ["inactive", "success", "0"], (unit, machine.said())
        assert not answers(port)


def test_a_unit_that_cannot_start_says_why(tmp_path: Path, skip_without_systemd: None) -> None:
    write_files(tmp_path / "files", "postgresql://roost@127.0.0.1:1/roost", free_port())
    (tmp_path / "files/etc/roost/roost.toml").write_text("[listeners]\ndrain = 3\n")
    with machine_of(tmp_path) as machine:
        machine.systemctl("start", "roost", check=False)
        assert machine.property_of("roost", "Result") == "exit-code"
        assert "drain" in machine.said()
