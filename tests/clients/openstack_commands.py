"""Runs `openstack` commands, all in one process: starting the client takes longer than most of them.

Standard input: JSON lists, one a line, of lines as a person types them: `openstack ...`, `NAME=$(openstack ...)` or
`until openstack ... | grep -q WORD; do sleep 1; done`, which is given up after 30 seconds.
Standard output: for each a JSON list with each line's exit status and what it printed.
"""

import contextlib
import io
import json
import re
import shlex
import string
import sys
import time

from openstackclient.shell import main

UNTIL_S_MAX = 30.0
POLL_S = 0.2
"""How long a client sleeps at most, which would ask again after 1, 2 or 5 seconds only."""
sleep = time.sleep
time.sleep = lambda seconds: sleep(min(seconds, POLL_S))


def run(lines: list[str]) -> list[dict[str, object]]:
    """Every line in turn, also after one that failed."""
    variables: dict[str, str] = {}
    done: list[dict[str, object]] = []
    for line in lines:
        assigned = re.fullmatch(r"(\w+)=\$\((.+)\)", line)
        repeated = re.fullmatch(r"until (.+) \| grep -q (\w+); do sleep 1; done", line)
        command = assigned[2] if assigned else repeated[1] if repeated else line
        words = shlex.split(string.Template(command).substitute(variables))
        assert words[0] == "openstack", line
        status, out, err = _run_one(words)
        deadline_s = time.monotonic() + UNTIL_S_MAX
        while repeated and repeated[2] not in out:
            assert time.monotonic() < deadline_s, f"{line}: {out}{err}"
            time.sleep(1)  # as the line says
            status, out, err = _run_one(words)
        if assigned:
            variables[assigned[1]] = out.strip()
        done.append({"line": line, "status": status, "out": out, "err": err})
    return done


def _run_one(words: list[str]) -> tuple[int, str, str]:
    printed, complained = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(complained):
        status = main(words[1:])
    return status, printed.getvalue(), complained.getvalue()


for request in sys.stdin:
    sys.stdout.write(json.dumps(run(json.loads(request))) + "\n")
    sys.stdout.flush()
