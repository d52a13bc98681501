"""`roost-manage check-config`: what the configuration says, from where, and what is wrong with it, by itself."""

import os
import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import typer
from msgspec import Struct
from rich.console import Console

from roost.cli.serving.access import api_policy
from roost.cli.serving.neutron import check_with_neutron
from roost.cli.serving.roles import PRESETS, SCHEMAS
from roost.cli.serving.serve_options import choose_options
from roost.cli.settings import Config, ServeSettings, Settings, sources_of
from roost.cli.tables import new_table, print_table
from roost.platform.config import Configuration, OptionValue, Problem, gather
from roost.platform.errors import BadRequest

SOUND, WRONG = 0, 3
HIDDEN = "***"
CWD = Path()
SECRET = re.compile(r"(password|secret|token)$|^webhook_url$")


class Checked(Struct, frozen=True):
    """What was read, as it is told: without secrets."""

    files: tuple[str, ...]
    options: tuple[OptionValue, ...]
    problems: tuple[Problem, ...]

    @property
    def exit_status(self) -> int:
        """Return 3 where anything is wrong, else 0."""
        return WRONG if self.problems else SOUND


def check(config: Config) -> Checked:
    """Return all that files and environment say, and every problem."""
    configuration = gather(Settings, sources=sources_of(config), environment=os.environ)
    problems = [*configuration.problems]
    if configuration.sections is not None:
        problems += _problems(config, configuration, configuration.sections)
    values = {(value.section, value.option): value for value in configuration.values}
    if database := os.environ.get("ROOST_DATABASE"):
        values["database", "url"] = OptionValue("database", "url", database, "ROOST_DATABASE")
    shown = tuple(_without_secret(value) for _, value in sorted(values.items()))
    return Checked(tuple(map(str, configuration.files)), shown, tuple(problems))


def print_checked(console: Console, checked: Checked) -> None:
    """Print the files, a table of what they say, and the problems."""
    console.print(f"Files: {', '.join(checked.files)}." if checked.files else "There is no file; the defaults count.")
    if checked.options:
        table = new_table("option", "value", "from")
        for value in checked.options:
            table.add_row(f"[{value.section}] {value.option}", _text(value.value), value.source)
        print_table(console, table)
    for problem in checked.problems:
        console.print(problem.text)
    if not checked.problems:
        console.print("Nothing is wrong with it.")


def _problems(config: Config, configuration: Configuration[Settings], settings: Settings) -> Iterator[Problem]:
    """Yield what is wrong with options that are each right: files that are missing, options that do not go together."""
    sources = {(value.section, value.option): value.source for value in configuration.values}
    texts = set()
    for section, option, look in _checks(config, settings):
        try:
            look()
        except (BadRequest, typer.BadParameter) as error:
            text = getattr(error, "message", None) or str(error)
            if text in texts:  # of a policy file that several services read
                continue
            texts.add(text)
            named = text if text.startswith("[") else f"[{section}] {text}"
            section = named[1 : named.index("]")]
            option = option or _option_of(text, section)
            source = sources.get((section, option), "")
            yield Problem(source, section, option, f"{source}: {named}" if source else named)


def _checks(config: Config, settings: Settings) -> Iterator[tuple[str, str, Callable[[], Any]]]:
    """Yield what to call for each section that is used; with the option, where no sentence names it."""
    serve = settings.serve
    yield "serve", "", lambda: _check_serve(config, settings)
    yield "metrics", "token_file", settings.metrics.read_token
    if settings.has_keystone:
        yield "keystone", "", settings.keystone.check
    if settings.neutron.url and not serve.with_neutron:
        yield "neutron", "", partial(settings.neutron.check, has_catalog=bool(settings.keystone.auth_url))
    if settings.placement_client.url:
        yield "placement_client", "", settings.placement_client.check
    policy = serve.policy if serve.policy not in PRESETS else ""
    if policy or settings.placement.policy_file:
        rules = partial(api_policy, auth="keystone", policy=policy or None, settings=settings.placement, folder=CWD)
        for service in SCHEMAS:
            yield *(("serve", "policy") if policy else ("placement", "policy_file")), partial(rules, service)


def _check_serve(config: Config, settings: Settings) -> None:
    """Raise typer.BadParameter, BadRequest for what `roost serve` would not begin with."""
    nothing = dict.fromkeys(("pg_template", "placement_url", *ServeSettings.__struct_fields__))
    chosen = choose_options(
        settings, config, target=(None, None, None), log=(None, None, None), tls=(None, None, None),
        beside=False, cells=(), **nothing,
    )  # fmt: skip
    if chosen.tls is not None:
        chosen.tls.check()
    if chosen.with_neutron:
        check_with_neutron(settings, chosen.services)


def _option_of(text: str, section: str) -> str:
    """Return the option of the section that a sentence names first, as `--name` or as `name`; "" for none."""
    structs = {field.name: field.type for field in msgspec.structs.fields(Settings)}
    options = structs[section].__struct_fields__
    words = (word.removeprefix("--").replace("-", "_") for word in re.findall(r"[-\w]+", text))
    return next((word for word in words if word in options), "")


def _without_secret(value: OptionValue) -> OptionValue:
    if SECRET.search(value.option):
        return msgspec.structs.replace(value, value=HIDDEN)
    if isinstance(value.value, str):
        return msgspec.structs.replace(value, value=re.sub(r"(://[^:/@]*):.*@", rf"\1:{HIDDEN}@", value.value))
    return value


def _text(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
