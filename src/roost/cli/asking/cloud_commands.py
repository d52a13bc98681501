"""The commands that are about a cloud file: `load` puts it into a Roost, `demo` and `dev` play it on this machine."""

import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Protocol

import msgspec
import typer

from roost.cli.asking.commands import DEFAULT_API, DEFAULT_LISTEN, Api, CaFile, Token, check_api
from roost.cli.endings import run
from roost.cli.printing import print_answer, print_note, stopped_text
from roost.cli.serving.option_checks import misused, read_addresses
from roost.cli.serving.tls_options import ClientCert, ClientKey, check_pair, path_text

if TYPE_CHECKING:
    from roost.cli.asking.cloudfile import Cloud

DEFAULT_DATA_DIR = Path("roost")
FAKE, QEMU = "fake", "qemu"


class Told(Protocol):
    """A story that was told to its end. holds: all that it promised was so."""

    @property
    def holds(self) -> bool:
        """Return whether all that it promised was so."""

    def document(self) -> dict[str, Any]:
        """Return it for a program."""


def load(
    cloud_file: Annotated[Path, typer.Argument(metavar="CLOUD.yaml")],
    api: Api = DEFAULT_API,
    servers: Annotated[bool, typer.Option("--servers", help="Boot the file's servers as well.")] = False,
    token: Token = None,
    ca_file: CaFile = None,
    cert: ClientCert = None,
    key: ClientKey = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print what was created and found as JSON.")] = False,
) -> None:
    """Create the flavors, networks, segments, subnets and hosts of a cloud file.

    What exists by its name is left alone: a second run creates nothing.

    Example: `roost load examples/three-racks.yaml --api http://127.0.0.1:8778`
    """
    from roost.cli.asking.cloud_client import CloudClient
    from roost.cli.asking.loading import load
    from roost.cli.asking.story_output import Bars, load_text
    from roost.cli.keystone import access_of

    check_api(api)
    cloud = _read_cloud(cloud_file)
    check_pair(cert, key)
    access = access_of(token, ca_file, os.environ, cert=path_text(cert), key=path_text(key))

    async def work() -> None:
        with Bars() as bars:
            async with CloudClient.connect(api, access) as client:
                loaded = await load(client, cloud, servers=servers, progress=bars.progress)
        if as_json:
            print_answer(msgspec.json.encode({"created": loaded.created, "found": loaded.existing}).decode())
        else:
            print_answer(load_text(loaded.created, loaded.existing))

    run(work())


def demo(
    cloud_file: Annotated[Path | None, typer.Argument(metavar="CLOUD.yaml", show_default="three racks")] = None,
    data_dir: Annotated[Path | None, typer.Option(help="Keep the data here.", show_default="a temporary one")] = None,
    real: Annotated[
        bool, typer.Option("--real", help="Tell another story, with guests of QEMU, on hosts that are namespaces.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the story as one JSON object.")] = False,
) -> None:
    """Build a whole cloud on this machine, boot until the addresses run out, and tell the story.

    Example: `roost demo examples/three-racks.yaml`
    """
    from rich.console import Console

    from roost.cli.asking.demo import tell, three_racks
    from roost.cli.asking.real_demo import tell_real
    from roost.cli.asking.real_output import RealNarrator
    from roost.cli.asking.story_output import Bars, Narrator

    if real and cloud_file:
        misused("--real: expected no cloud file, its story is of three racks of its own")
    cloud = _read_cloud(cloud_file) if cloud_file else three_racks()
    console = Console(quiet=as_json, highlight=False, markup=False, emoji=False)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ended like Ctrl-C: nothing stays behind

    async def work() -> Told:
        with Bars() as bars:
            if real:
                narrator = RealNarrator(bars, console, again=f"roost dev --driver {QEMU}")
                return await tell_real(narrator, data_dir=data_dir)
            again = f"roost dev {cloud_file}" if cloud_file else "roost dev"
            return await tell(cloud, Narrator(bars, console, again=again), data_dir=data_dir)

    story = run(work())
    if as_json:
        print_answer(msgspec.json.encode(story.document()).decode())
    if not story.holds:
        raise typer.Exit(1)


def dev(
    cloud_file: Annotated[Path | None, typer.Argument(metavar="CLOUD.yaml", show_default="three racks")] = None,
    data_dir: Annotated[
        Path | None, typer.Option(help="Where data, log and guests are.", show_default="./roost")
    ] = None,
    listen: Annotated[str, typer.Option(help="Address and port; port 0 takes a free one.")] = DEFAULT_LISTEN,
    servers: Annotated[bool, typer.Option("--servers", help="Boot the file's servers as well.")] = False,
    driver: Annotated[
        str,
        typer.Option(
            metavar=f"{FAKE}|{QEMU}", help="fake: hosts pretend. qemu: they are namespaces, with real guests."
        ),
    ] = "fake",
) -> None:
    """Serve a cloud file on this machine, with hosts that pretend: to try things on, in one terminal.

    Ctrl-C stops everything; the data stays, and the same command goes on from there.

    Example: `roost dev examples/three-racks.yaml`
    """
    from roost.cli.asking.demo import three_racks
    from roost.cli.asking.dev import run_dev
    from roost.cli.asking.real_demo import real_racks
    from roost.cli.asking.story_output import Bars

    read_addresses(listen, None, auth="none")
    if driver not in (FAKE, QEMU):
        misused(f"--driver {driver}: expected {FAKE} or {QEMU}")
    default_cloud = three_racks if driver == FAKE else real_racks
    cloud = _read_cloud(cloud_file) if cloud_file else default_cloud()
    directory = data_dir or DEFAULT_DATA_DIR
    with Bars() as bars:

        def say(text: str) -> None:
            bars.clear()
            print_answer(text)

        def ready(url: str) -> None:
            where = "" if url == DEFAULT_API else f" --api {url}"
            say(f"Ask it from another terminal: roost status{where}, roost servers{where}. Ctrl-C stops it all.")

        dev = run_dev(
            cloud,
            data_dir=directory,
            listen=listen,
            servers=servers,
            real=driver == QEMU,
            progress=bars.progress,
            say=say,
            ready=ready,
        )
        run(dev)
    print_note(stopped_text(directory))


def _read_cloud(file: Path) -> "Cloud":
    """Return the checked cloud; warnings are printed, errors end the command."""
    from roost.cli.asking.cloudfile import CloudFileError, read_cloud

    try:
        cloud, warnings = read_cloud(file)
    except CloudFileError as error:
        for problem in error.problems:
            print(problem, file=sys.stderr)  # noqa: T201
        raise typer.Exit(1) from None
    for warning in warnings:
        print(f"warning: {warning}", file=sys.stderr)  # noqa: T201
    return cloud
