"""Runs `openstack` commands, all in one process: starting the client takes longer than most of them.

Standard input: JSON lists, one a line, of lines as a person types them: `openstack ...` or `NAME=$(openstack ...)`.
Standard output: for each a JSON list with each line's exit status and what it printed.
"""

import contextlib
import io
import json
import re
import shlex
import string
import sys

from openstackclient.shell import main


def run(lines: list[str]) -> list[dict[str, object]]:
    """Every line in turn, also after one that failed."""
    variables: dict[str, str] = {}
    done: list[dict[str, object]] = []
    for line in lines:
        assigned = re.fullmatch(r"(\w+)=\$\((.+)\)", line)
        words = shlex.split(string.Template(assigned[2] if assigned else line).substitute(variables))
        assert words[0] == "openstack", line
        printed, complained = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(complained):
            status = main(words[1:])
        if assigned:
            variables[assigned[1]] = printed.getvalue().strip()
        done.append({"line": line, "status": status, "out": printed.getvalue(), "err": complained.getvalue()})
    return done


for request in sys.stdin:
    sys.stdout.write(json.dumps(run(json.loads(request))) + "\n")
    sys.stdout.flush()
