"""The commands that ask what would fit: `explain` says why a server finds no host, `capacity` how many more fit."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from roost.cli.asking.commands import DEFAULT_API, Api, AsJson, CaFile, Token, ask
from roost.cli.endings import BAD_INPUT, FAILED, fail
from roost.cli.serving.tls_options import ClientCert, ClientKey
from roost.platform.errors import BadRequest

if TYPE_CHECKING:
    from roost.cli.asking.cloud_client import CloudClient, Json

Flavor = Annotated[str | None, typer.Option(metavar="NAME|ID", help="The servers' flavor.")]
Networks = Annotated[
    list[str] | None, typer.Option("--network", metavar="NAME|ID", help="A NIC on this network; may be repeated.")
]
Like = Annotated[
    str | None, typer.Option(metavar="SERVER", help="As this server has it, by its id: flavor, image, networks.")
]
Zone = Annotated[str | None, typer.Option(help="In this availability zone.")]
Host = Annotated[str | None, typer.Option(help="On this host.")]
Project = Annotated[
    str | None, typer.Option(metavar="ID", help="Whose the servers are, where hosts are some projects'.")
]
Count = Annotated[int, typer.Option(min=1, max=10_000, help="So many servers.")]
PastRequest = Annotated[
    str | None, typer.Option("--request", metavar="ID", help="Why a request of the past was refused, by its id.")
]
WhatIf = Annotated[
    Path | None,
    typer.Option(
        "--what-if", metavar="FILE", help="Of the cloud that would be, with hosts, addresses and drains of this file."
    ),
]


def explain(
    flavor: Flavor = None,
    network: Networks = None,
    count: Count = 1,
    like: Like = None,
    zone: Zone = None,
    host: Host = None,
    project: Project = None,
    request: PastRequest = None,
    api: Api = DEFAULT_API,
    token: Token = None,
    ca_file: CaFile = None,
    cert: ClientCert = None,
    key: ClientKey = None,
    as_json: AsJson = False,
) -> None:
    """Say whether servers would find hosts; if not, why, which hosts come nearest, and what would help. Claims nothing.

    Exit status 0: all of them fit; 1: they do not, or the past request was refused; 127: wrong usage; 255: no answer.

    Example: `roost explain --flavor small --network public --count 40`
    """
    from roost.cli.asking.capacity_output import print_explanation
    from roost.cli.tables import table_console

    body = _servers(flavor, network, like, zone, host, project)
    if request is not None:
        if body or count != 1:
            raise typer.BadParameter("--request: of a request of the past nothing else is asked")
        body = {"request": request}
    elif not flavor and not like:
        raise typer.BadParameter("expected --flavor, --like or --request")
    else:
        body["count"] = count
    answer = _post("/roost/v1/explain", body, api, token, ca_file, cert, key)
    if as_json:
        typer.echo(msgspec.json.encode(answer))
    else:
        print_explanation(table_console(), answer)
    if not answer["fits"]:
        raise typer.Exit(1)


def capacity(
    flavor: Flavor = None,
    network: Networks = None,
    like: Like = None,
    zone: Zone = None,
    host: Host = None,
    project: Project = None,
    what_if: WhatIf = None,
    api: Api = DEFAULT_API,
    token: Token = None,
    ca_file: CaFile = None,
    cert: ClientCert = None,
    key: ClientKey = None,
    as_json: AsJson = False,
) -> None:
    """Say how many more servers fit, what binds first, and what is stranded; without a flavor, what the cloud has free.

    Exit status 0: one more fits, or no flavor was named; 1: none does; 127: wrong usage; 255: no answer.

    Example: `roost capacity --flavor small --network public`
    """
    from roost.cli.asking.capacity_output import print_capacity, print_cloud
    from roost.cli.tables import table_console

    body = _servers(flavor, network, like, zone, host, project)
    if what_if is not None:
        from roost.cli.asking.what_if import read_what_if

        try:
            body["what_if"] = read_what_if(what_if)
        except BadRequest as error:
            fail(error, status=BAD_INPUT)
    answer = _post("/roost/v1/capacity", body, api, token, ca_file, cert, key)
    if as_json:
        typer.echo(msgspec.json.encode(answer))
    elif "servers" in answer:
        print_capacity(table_console(), answer)
    else:
        print_cloud(table_console(), answer)
    if "servers" in answer and not answer["servers"]["least"]:
        raise typer.Exit(1)


def _servers(
    flavor: str | None,
    networks: list[str] | None,
    like: str | None,
    zone: str | None,
    host: str | None,
    project: str | None,
) -> dict[str, Any]:
    """Return what is asked about as a body says it."""
    words = {"flavor": flavor, "networks": networks, "like": like, "zone": zone, "host": host, "project": project}
    return {name: value for name, value in words.items() if value}


def _post(
    path: str,
    body: dict[str, Any],
    api: str,
    token: str | None,
    ca_file: str | None,
    cert: Path | None,
    key: Path | None,
) -> "Json":
    async def post(client: "CloudClient") -> "Json":
        return await client.call("POST", path, body)

    return ask(post, api, token, ca_file, cert, key, failed=FAILED)
