"""Run upstream Placement's own gabbi tests against a server: `python -m tests.conformance.run`; README.md explains.

Exit status 0: all passed; 1: a test failed; 2: nothing could be run.
"""

import argparse
import contextlib
import fnmatch
import importlib.metadata
import json
import multiprocessing
import os
import random
import re
import shutil
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tests.conformance.server import PROGRAM, FreshServer, ServerError
from tests.conformance.suite import DISTRIBUTION, GabbiFile, NoGabbits, Outcome, find_gabbits

PORTS_PER_FILE = 10
PORTS = range(10000, 32000)
"""Below the range from which a system takes the ports of outgoing connections."""

ROOST = (
    f"{PROGRAM} serve placement --listen 127.0.0.1:{{port}} "
    "--data-dir {workdir}/data --auth noauth2 --policy {policy}"
)

Row = dict[str, Any]
"""What the report says about one file."""


def parse_arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.conformance.run", description=__doc__)
    parser.add_argument(
        "--start",
        metavar="CMD",
        default=ROOST,
        help="the command that starts a server for one file, in which {port}, {workdir} (an empty folder) and "
        "{policy} are filled in; default: %(default)s",
    )
    parser.add_argument("--only", metavar="GLOB", nargs="+", action="extend", help="only the files named so")
    parser.add_argument("-j", "--jobs", metavar="N", type=int, default=1, help="files at a time")
    parser.add_argument("-v", "--verbose", action="store_true", help="a line for each file, and whole messages")
    parser.add_argument("--json", metavar="FILE", type=Path, help="write what each file gave here")
    parser.add_argument("--keep", action="store_true", help="keep the servers' folders, with their logs")
    parser.add_argument("--seed", default="0", help="other uuids in the fixtures")
    parser.add_argument("--start-timeout", metavar="S", type=float, default=60, help="seconds to wait for a server")
    parser.add_argument("--timeout", metavar="S", type=float, default=30, help="seconds to wait for one answer")
    return parser.parse_args()


def select_files(folder: Path, globs: Sequence[str]) -> list[Path]:
    """The gabbi files that any of the globs matches, with or without their suffix. Raises NoGabbits."""
    paths = [
        path
        for path in sorted(folder.glob("*.yaml"))
        if any(fnmatch.fnmatch(name, glob) for glob in globs for name in (path.name, path.stem))
    ]
    if not paths:
        raise NoGabbits(f"{folder} has no files named {' or '.join(globs)}")
    return paths


@contextlib.contextmanager
def template(args: argparse.Namespace) -> Iterator[None]:
    """Let every Roost that is started begin as a copy of one that was: 79 times initdb and migrations take a minute.

    The copies have its configuration too: nothing in them is worth an fsync. Raises ServerError.
    """
    ports = range(PORTS.stop, PORTS.stop + PORTS_PER_FILE)
    server = FreshServer(args.start, "default", ports, timeout_s=args.start_timeout, keep=True)
    try:
        with server:
            pass
        data_dir = server.workdir / "data"
        with (data_dir / "postgres" / "postgresql.conf").open("a") as configuration:
            configuration.write("fsync = off\n")
        os.environ["ROOST_PG_TEMPLATE"] = str(data_dir)
        yield
    finally:
        shutil.rmtree(server.workdir, ignore_errors=True)


def run_file(run: tuple[Path, range, argparse.Namespace]) -> Row:
    """Run one gabbi file on an empty server."""
    path, ports, args = run
    started_s = time.monotonic()
    file = GabbiFile(path)
    outcome = Outcome()
    workdir = None
    if file.policy is None:
        outcome.fail_all(file.tests, f"this runner has no fixture {file.fixture}")
    else:
        server = FreshServer(args.start, file.policy, ports, timeout_s=args.start_timeout, keep=args.keep)
        try:
            with server as url:
                outcome = file.run(url, seed=args.seed, timeout_s=args.timeout)
        except ServerError as error:
            outcome.fail_all(file.tests, str(error))
        workdir = str(server.workdir) if args.keep else None
    return {
        "file": file.name,
        "fixture": file.fixture,
        "policy": file.policy,
        "tests": len(file.tests),
        "passed": len(outcome.passed),
        "failed": len(outcome.failed),
        "skipped": len(outcome.left_out),
        "seconds": round(time.monotonic() - started_s, 2),
        "failures": [{"test": name, "message": message} for name, message in outcome.failed],
        "skips": [{"test": name, "reason": reason} for name, reason in outcome.left_out],
        "adapted": outcome.adapted,
        "workdir": workdir,
    }


def run_files(paths: Sequence[Path], args: argparse.Namespace) -> Iterator[Row]:
    """Run the files, several at a time, and yield their rows in order."""
    # Blocks of ports that no two files share.
    first = random.randrange(PORTS.start, PORTS.stop - PORTS_PER_FILE * len(paths))
    runs = [
        (path, range(start, start + PORTS_PER_FILE), args)
        for path, start in zip(paths, range(first, PORTS.stop, PORTS_PER_FILE), strict=False)
    ]
    # Processes and not threads: a file's variables are in the environment.
    with multiprocessing.Pool(args.jobs, interrupt_on_sigterm) as pool:
        yield from pool.imap(run_file, runs)
        pool.close()
        pool.join()


def shorten(message: str, limit: int = 200) -> str:
    """Say in one line what was expected and what came instead."""
    pattern = r"'(\d{3})' not found in \[([^]]*)\](?:, (?:truncated )?response:\n(.*))?"
    if match := re.match(pattern, message, re.DOTALL):
        got, expected, body = match.groups(default="")
        detail = re.search(r'"detail": "((?:[^"\\]|\\.)*)"', body)
        said = detail[1].replace("\\n", " ") if detail else body
        message = f"expected status {expected.replace(chr(39), '').replace(', ', ' or ')}, got {got} {said}"
    message = " ".join(message.split())
    return message if len(message) <= limit else message[: limit - 3] + "..."


def interrupt_on_sigterm() -> None:
    """Treat SIGTERM like Ctrl-C, so that started servers are stopped.

    Of all exceptions only KeyboardInterrupt gets past the test framework.
    """
    signal.signal(signal.SIGTERM, signal.default_int_handler)


def report(row: Row, *, verbose: bool) -> None:
    """Print what came of one file: nothing, if all passed and no more is asked for."""
    if verbose:
        counts = f"{row['passed']:4d} passed, {row['failed']} failed, {row['skipped']} skipped"
        print(f"{row['file']:<48} {counts}, {row['seconds']:.1f} s", flush=True)
    if row["workdir"]:
        print(f"kept {row['file']}: {row['workdir']}")
    for failure in row["failures"]:
        message = failure["message"]
        print(f"FAIL {row['file']}: {failure['test']}: {message if verbose else shorten(message)}", flush=True)


def main() -> int:
    """Run what was asked for; returns the exit status."""
    args = parse_arguments()
    interrupt_on_sigterm()
    try:
        paths = select_files(find_gabbits(), args.only or ["*"])
    except NoGabbits as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    started_s = time.monotonic()
    rows = []
    try:
        with template(args) if args.start == ROOST else contextlib.nullcontext():
            for row in run_files(paths, args):
                rows.append(row)
                report(row, verbose=args.verbose)
    except ServerError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    totals = {key: sum(row[key] for row in rows) for key in ("tests", "passed", "failed", "skipped")}
    seconds = round(time.monotonic() - started_s, 1)
    if args.json:
        versions = {name: importlib.metadata.version(name) for name in (DISTRIBUTION, "gabbi")}
        whole = {"versions": versions, "seed": args.seed, "seconds": seconds, **totals, "files": rows}
        args.json.write_text(json.dumps(whole, indent=1) + "\n")
    print(f"{len(rows)} files in {seconds} s: ", end="")
    print("{passed} passed, {failed} failed, {skipped} skipped".format(**totals))
    return 1 if totals["passed"] != totals["tests"] else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
