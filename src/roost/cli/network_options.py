"""Options of `roost agent` about ports that it makes, binds or deletes itself."""

from pathlib import Path
from typing import Annotated

import typer

ServiceVersion = Annotated[
    int | None,
    typer.Option(
        min=1,
        max=6,
        help="Speak an older contract: 1 makes, binds and deletes ports, 2 binds them, from 3 on they are bound.",
        show_default="this release's",
    ),
]
NetworkUrl = Annotated[
    str | None,
    typer.Option(
        metavar="URL", help="The Network API, for ports that are the agent's to bind.", show_default="of --api"
    ),
]
NetworkTokenFile = Annotated[
    Path | None,
    typer.Option(help="The file that has the token for it.", show_default="Keystone's by OS_AUTH_URL, else none"),
]
