"""Follows a how-to literally: writes the files that it prints, runs its commands in one shell, in order, compares.

What a document's code blocks mean here, and to readers:

    console   commands, one a line; `roost serve`, `dev` and `agent` go on while the next ones run, as in another
              terminal, and are awaited until they say that they are there; `Ctrl-C` ends the youngest of them, or the
              one of a terminal: both are followed by `# terminal NAME` then
    text      what the commands before printed: every word of it in this order, `...` for whatever was there
    others    a file if their first line is a comment with its name (`# roost.toml: ...`), else only for reading

A document of several machines says in the first line of a block where its commands are run (`# on node1 and node2`).
The addresses and folders of the documents are replaced by those of the test, in one table of each test.
"""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.howto.openstack_server import write_client

BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILE_NAME = re.compile(r"^# ([\w./-]+\.(?:toml|yaml|cfg))\b")
GOING_ON = re.compile(r"^(?:/\S+/)?roost (serve|dev|agent)\b(?!.* --check)")
ON = re.compile(r"# on (.+)\n")
TERMINAL = re.compile(r" +# terminal (\S+)$")
THERE = {
    "serve": "Roost serves",
    "dev": "Ask it from another terminal",
    "agent": "connected to the API|the API is found",
}
"""What each says once it is there, as a pattern; an agent of the kept release says that it found the API."""
PROGRAM = """#!{python}
from pathlib import Path
from roost.cli import settings
from roost.cli.{module} import main
settings.DEFAULT_CONFIG = Path({directory!r}) / "etc" / "roost.toml"
main()
"""
"""A program whose /etc/roost is the reader's own."""
TIMEOUT_S = 90.0
BIN = Path(sys.executable).parent
END = "end-of-command"


class Shell:
    """One bash for a whole document: variables, folders and what was activated stay from command to command."""

    def __init__(self, directory: Path, environment: Mapping[str, str], before: Sequence[str] = ()) -> None:
        self._bash = subprocess.Popen(
            [*before, "bash"], cwd=directory, env=dict(environment), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        self.run("set -m; set -o pipefail")

    def run(self, command: str) -> tuple[int, str]:
        """Run a command to its end; its exit status, and all that it printed."""
        assert self._bash.stdin is not None
        assert self._bash.stdout is not None
        self._bash.stdin.write(f"{{ {command}\n}} < /dev/null\nprintf '\\n%s %s\\n' {END} $?\n")
        self._bash.stdin.flush()
        printed = ""
        while not (line := self._bash.stdout.readline()).startswith(END):
            assert line, f"{command}: the shell ended\n{printed}"
            printed += line
        return int(line.split()[1]), printed.removesuffix("\n")

    def close(self) -> None:
        """End it; what it runs in the background is ended by others."""
        self._bash.kill()
        self._bash.communicate()


@dataclass
class Rehearsal:
    """One reader at a desk. skipped: commands that need the world outside, each with the reason."""

    directory: Path
    shell: Shell
    replaced: Mapping[str, str]
    skipped: Mapping[str, str]
    printed: str = ""
    """What the last block of commands printed."""
    running: dict[str, tuple[int, Path]] = field(default_factory=dict)
    """What goes on in other terminals, by their names: pid and log, the youngest last."""

    def follow(self, document: Path) -> None:
        """Do all that the document says. AssertionError names the command and what it said."""
        self.follow_text(document.read_text())

    def follow_text(self, document: str) -> None:
        """Do all that a part of a document says."""
        for kind, block in BLOCK.findall(document):
            self.follow_block(kind, block)

    def follow_block(self, kind: str, block: str) -> None:
        """Do what one block says."""
        text = self.at_home(block)
        if kind == "console":
            self.printed = "".join(self.do(line) for line in _commands(text))
        elif kind == "text":
            assert_shows(self.printed, text)
        elif (name := FILE_NAME.match(text)) is not None:
            file = self.directory / name[1]
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)

    def end(self) -> None:
        """Ctrl-C everything, the youngest first; each must end well and say where its data is."""
        while self.running:
            self._end_youngest()

    def at_home(self, text: str) -> str:
        """The text with the test's addresses and folders."""
        for there, here in self.replaced.items():
            text = text.replace(there, here)
        return text

    def do(self, command: str) -> str:
        """One command, to its end or until it is there; what it printed."""
        if command in self.skipped:
            return ""
        terminal = match[1] if (match := TERMINAL.search(command)) else None
        if re.match(r"Ctrl-C\b", command):
            return self._end(terminal) if terminal else self._end_youngest()
        if (going_on := GOING_ON.match(command)) and "# exit status" not in command:
            return self._start(TERMINAL.sub("", command), THERE[going_on[1]], terminal)
        status, printed = self.shell.run(command)
        expected = int(match[1]) if (match := re.search(r"# exit status (\d+)$", command)) else 0
        assert status == expected, f"{command}\nended with {status}:\n{printed}"
        return printed

    def _start(self, command: str, there: str, terminal: str | None) -> str:
        log = self.directory / f"terminal-{len(list(self.directory.glob('terminal-*')))}.log"
        log.touch()
        _, printed = self.shell.run(f"{command} > {log} 2>&1 &\necho pid $!")
        pid = int(printed.rsplit("pid ", 1)[1].split()[0])
        self.running[terminal or log.name] = (pid, log)
        deadline_s = time.monotonic() + TIMEOUT_S
        while not re.search(there, log.read_text()):
            assert _is_alive(pid), f"{command}\n{log.read_text()}"
            assert time.monotonic() < deadline_s, f"{command}\n{log.read_text()}"
            time.sleep(0.05)  # another process is at work; nothing here can move its clock
        return log.read_text()

    def _end_youngest(self) -> str:
        return self._end(list(self.running)[-1])

    def _end(self, terminal: str) -> str:
        pid, log = self.running.pop(terminal)
        os.kill(pid, signal.SIGINT)
        status, _ = self.shell.run(f"wait {pid}")
        assert status == 0, log.read_text()
        assert "has stopped." in log.read_text().splitlines()[-1]
        return log.read_text()


def follow_machines(machines: Mapping[str, Rehearsal], document: str) -> None:
    """Do all that a document of several machines says; what names none is for the one before, at first for the first.

    machines: name -> who sits there.
    """
    readers = [next(iter(machines.values()))]
    for kind, block in BLOCK.findall(document):
        if where := ON.match(block):
            readers = [machines[name.removeprefix("the ")] for name in where[1].split(" and ")]
        for reader in readers:
            reader.follow_block(kind, block)


def _is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def _commands(block: str) -> list[str]:
    """The lines of a block; one that ends with a backslash goes on in the next."""
    joined = block.replace("\\\n", " ")
    return [line for line in joined.splitlines() if line.strip() and not line.startswith("#")]


def assert_shows(printed: str, expected: str) -> None:
    """All words of `expected` in their order; where it has `...`, anything."""
    parts = [r"\s+".join(map(re.escape, part.split())) for part in re.split(r"\.\.\.", expected)]
    assert re.search(r"[\s\S]*?".join(parts), printed), f"not printed:\n{expected}\nbut:\n{printed}"


@contextmanager
def rehearsal(
    directory: Path,
    *,
    replaced: Mapping[str, str],
    skipped: Mapping[str, str] | None = None,
    before: Sequence[str] = (),
    openstack: bool = True,
    **environment: str,
) -> Iterator[Rehearsal]:
    """A desk in an empty directory: `roost`, `roost-manage` and `openstack` are on the path; all that runs is ended.

    before: words of a command that has the shell, and `openstack`, run elsewhere. openstack: whether it works.
    """
    programs, path = directory / "bin", str(directory / "openstack.socket")
    programs.mkdir()
    write_client(programs / "openstack", path)
    for name, module in (("roost", "main"), ("roost-manage", "manage")):
        (programs / name).write_text(PROGRAM.format(python=sys.executable, module=module, directory=str(directory)))
        (programs / name).chmod(0o755)
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("OS_", "ROOST_"))}
    clean |= {"PATH": f"{programs}:{BIN}:{clean['PATH']}", "PYTHONPATH": os.pathsep.join(sys.path), "COLUMNS": "160"}
    serving = _openstack_server(path, directory, clean, before) if openstack else nullcontext()
    shell = Shell(directory, {**clean, **environment}, before)
    desk = Rehearsal(directory, shell, replaced, skipped or {})
    try:
        with serving:
            yield desk
            desk.end()
    finally:
        for pid, _ in desk.running.values():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
            deadline_s = time.monotonic() + TIMEOUT_S
            while _is_alive(pid) and time.monotonic() < deadline_s:
                time.sleep(0.05)  # the shell may be in a loop that does not end, so it cannot be asked to wait
        shell.close()


@contextmanager
def _openstack_server(
    path: str, directory: Path, environment: Mapping[str, str], before: Sequence[str]
) -> Iterator[None]:
    """Run what answers `openstack` at a socket while the block runs."""
    server = subprocess.Popen(
        [*before, sys.executable, str(Path(__file__).with_name("openstack_server.py")), path],
        stdout=subprocess.PIPE, env=environment, cwd=directory,
    )  # fmt: skip
    try:
        assert server.stdout is not None
        assert server.stdout.readline() == b"ready\n"
        yield
    finally:
        server.kill()
        server.communicate()
