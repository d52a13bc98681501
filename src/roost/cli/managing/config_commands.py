"""`roost-manage convert-config` and `check-config`: a configuration is made, and looked at."""

from pathlib import Path
from typing import Annotated

import msgspec
import typer

from roost.cli import endings
from roost.cli.managing.manage_options import ConfigFile
from roost.cli.tables import table_console
from roost.platform.errors import BadRequest


def convert_config(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="placement.conf...", help="Upstream Placement's configuration; of several a later wins."
        ),
    ],
    as_json: Annotated[bool, typer.Option("--json", help="Print options and remarks as one JSON object.")] = False,
) -> None:
    """Print the roost.toml that says the same as an upstream placement.conf, passwords included.

    What has no option is told in comments. Exit status 0: all is said. 4: something is left for you to decide.

    Example: `(umask 077; roost-manage convert-config /etc/placement/placement.conf > roost.toml)`
    """
    from roost.cli.managing.convert_config import as_toml, convert, read_upstream

    try:
        converted = convert(read_upstream(files))
    except BadRequest as error:
        endings.fail(error, program="roost-manage")
    document = msgspec.json.encode(converted).decode() if as_json else as_toml(converted)
    typer.echo(document, nl=as_json)
    raise typer.Exit(converted.exit_status)


def check_config(
    config: ConfigFile = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print files, options and problems as one object.")] = False,
) -> None:
    """Say what the configuration says, from which file or variable each option is, and all that is wrong with it.

    No server is asked. Exit status 0: nothing is wrong. 3: something is. 127: wrong usage. 255: it failed.

    Example: `roost-manage check-config --config /etc/roost/roost.toml`
    """
    from roost.cli.managing.check_config import check, print_checked

    checked = check(config)
    if as_json:
        typer.echo(msgspec.json.encode(checked).decode())
    else:
        print_checked(table_console(), checked)
    raise typer.Exit(checked.exit_status)
