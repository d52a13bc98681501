"""`--log-level`, `--log-format` and `--log-file`: the section [log] of roost.toml, as the command line has it."""

from pathlib import Path
from typing import Annotated, get_args

import msgspec
import typer

from roost.platform.settings import LogFormat, LogLevel, LogSettings

LEVELS, FORMATS = get_args(LogLevel), get_args(LogFormat)

LogLevelOption = Annotated[
    str | None, typer.Option(metavar="|".join(LEVELS), help="The least that is logged.", show_default="info")
]
LogFormatOption = Annotated[
    str | None,
    typer.Option(
        metavar="|".join(FORMATS), help="oslo: as Nova's logs are.", show_default="console on a terminal, else json"
    ),
]
LogFileOption = Annotated[
    Path | None, typer.Option(help="Append the log here; it may be moved away.", show_default="standard error")
]


def choose_log(settings: LogSettings, level: str | None, format_: str | None, file: Path | None) -> LogSettings:
    """Return what is logged and where: the options count, then the settings."""
    for option, word, words in (("--log-level", level, LEVELS), ("--log-format", format_, FORMATS)):
        if word is not None and word not in words:
            raise typer.BadParameter(f"{option} {word}: expected {', '.join(words)}")
    options_given = {"level": level, "format": format_, "file": None if file is None else str(file)}
    settings = msgspec.structs.replace(
        settings, **{name: word for name, word in options_given.items() if word is not None}
    )
    return msgspec.structs.replace(settings, file=str(Path(settings.file).absolute()) if settings.file else "")
