"""What `roost serve` does: by its command line, and by [serve], [database] and [log] where that is silent."""

from pathlib import Path
from typing import Any

from roost.cli.managing.ledger_target import LedgerTarget
from roost.cli.serving.log_options import choose_log
from roost.cli.serving.option_checks import read_addresses, read_metrics_address, read_policy, read_services
from roost.cli.serving.supervisor import ServeOptions
from roost.cli.serving.tls_options import listener_tls
from roost.cli.settings import Config, ServeSettings, Settings, sources_of

Target = tuple[Path | None, str | None, Path | None]
"""--data-dir, --database, --pg-bin."""

LogWords = tuple[str | None, str | None, Path | None]
"""--log-level, --log-format, --log-file."""

TlsFiles = tuple[Path | None, Path | None, Path | None]
"""--tls-cert, --tls-key, --agent-ca."""


def choose_options(
    settings: Settings, config: Config, *, target: Target, log: LogWords, tls: TlsFiles, **options: Any
) -> ServeOptions:
    """Return what is to be served.

    config: where the settings are from. options: of the command line, None where it has none, as ServeSettings names
    them. Raises typer.BadParameter, BadRequest.
    """
    words = _words(settings, options)
    services = read_services(words["services"])
    return ServeOptions(
        target=LedgerTarget.choose(*target).resolve(settings),
        pg_template=options["pg_template"],
        services=services,
        **read_addresses(
            words["listen"], words["agent_listen"] or None, auth=words["auth"], insecure_auth=words["insecure_auth"]
        ),
        **read_metrics_address(words["metrics_listen"]),
        workers=words["workers"],
        agent_workers=words["agent_workers"],
        conductors=words["conductors"],
        listens=services != ("conductor",) or options["listen"] is not None,
        beside=options["beside"],
        config=tuple(str(source.absolute()) for source in sources_of(config)),
        auth=words["auth"],
        policy=read_policy(words["auth"], words["policy"] or None),
        tls=listener_tls(*_tls_files(settings.serve, tls)),
        placement_url=options["placement_url"],
        cells=options["cells"],
        log=choose_log(settings.log, *log),
        log_level=log[0] or "",
        with_neutron=words["with_neutron"],
    )


def _words(settings: Settings, options: dict[str, Any]) -> dict[str, Any]:
    """Return each option of `[serve]`: the command line's, else the configuration's."""
    words = {name: getattr(settings.serve, name) for name in ServeSettings.__struct_fields__}
    return words | {name: options[name] for name in words.keys() & options if options[name] is not None}


def _tls_files(settings: ServeSettings, tls: TlsFiles) -> TlsFiles:
    """Return the command line's files, if it has any, else the configuration's: a pair is never mixed."""
    if any(tls):
        return tls
    cert, key, agent_ca = (
        Path(file) if file else None for file in (settings.tls_cert, settings.tls_key, settings.agent_ca)
    )
    return cert, key, agent_ca
