"""Runs `openstack` commands, all in one process: starting the client takes longer than most of them.

Standard input: JSON lists, one a line, of lines as a person types them: `openstack ...`, `NAME=$(openstack ...)` or
`until openstack ... | grep -q WORD; do sleep 1; done`, which is given up after 30 tries.
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

TRIES_MAX = 30


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
        tries = 1
        while repeated and repeated[2] not in out:
            assert tries < TRIES_MAX, f"{line}: {out}{err}"
            time.sleep(1)  # as the line says
            status, out, err = _run_one(words)
            tries += 1
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
