"""Who may do what, by oslo.policy: rules with defaults, which an operator's policy file overrides.

oslo.policy takes some 55 us for an answer and looks at its files each time. Here an answer is remembered for
(caller, rule, what of the target the rule looks at) until the file changes, which is looked for at most once in
CHECK_INTERVAL_S.
"""

import logging
import os
import re
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import structlog
import yaml
from oslo_config import cfg
from oslo_policy.policy import (
    AndCheck,
    Check,
    Enforcer,
    InvalidScope,
    NotCheck,
    OrCheck,
    RuleCheck,
    RuleDefault,
    register,
)

from roost.platform.auth import Caller, Forbidden
from roost.platform.errors import BadRequest

CHECK_INTERVAL_S = 1.0
REMEMBERED_MAX = 4096
UNKNOWN_SHOWN = 10

IS_ADMIN = "context_is_admin"
"""The rule that decides whether `is_admin:True` holds, as in Nova and Neutron; Placement has neither."""

Key = tuple[Caller, str, tuple[tuple[str, str | None], ...] | None]

log = structlog.get_logger()

OSLO_PARSER = logging.getLogger("oslo_policy._parser")


class OsloPolicy:
    """The rules as they are at the moment.

    A file that becomes unreadable or wrong while Roost runs changes nothing: the rules that it had stay in force, and
    the log says so. enforce_new_defaults: False lets in, besides, whom a rule's deprecated default let in.
    """

    def __init__(
        self,
        defaults: Sequence[RuleDefault],
        *,
        file: Path | None = None,
        names_known: Collection[str] | None = None,
        enforce_new_defaults: bool = True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Read the file. Raises BadRequest, which names it and what is wrong with it.

        names_known: the rules of every service that shares the file; the log names what else it has. None: no word.
        """
        self._defaults = defaults
        self._file = file
        self._names_known = names_known
        self._enforce_new_defaults = enforce_new_defaults
        self._clock = clock
        self._checked_at_s = clock()
        self._stamp = _stamp(file)
        self._enforcer = self._read()
        self._remembered: dict[Key, bool] = {}
        self._fields: dict[str, frozenset[str] | None] = {}

    def enforce(self, caller: Caller, rule: str, target: Mapping[str, str | None] | None = None) -> None:
        """Raise Forbidden unless the rule lets the caller do this to the target; None: what is the caller's own."""
        if self._file is not None and self._clock() - self._checked_at_s >= CHECK_INTERVAL_S:
            self._read_again()
        key = (caller, rule, None if target is None else self._looked_at(rule, target))
        allowed = self._remembered.get(key)
        if allowed is None:
            if len(self._remembered) >= REMEMBERED_MAX:
                self._remembered.clear()
            allowed = self._remembered[key] = self._decide(caller, rule, target)
        if not allowed:
            raise Forbidden(f"Policy does not allow {rule} to be performed.")

    def _looked_at(self, rule: str, target: Mapping[str, str | None]) -> tuple[tuple[str, str | None], ...]:
        """Return what of a target the rule can see: so ports that differ in nothing else are decided once."""
        if rule not in self._fields:
            self._fields[rule] = fields_of(rule, self._enforcer.rules)
        fields = self._fields[rule]
        return tuple(item for item in target.items() if fields is None or item[0] in fields)

    def _decide(self, caller: Caller, rule: str, target: Mapping[str, str | None] | None) -> bool:
        if target is None:
            target = {"project_id": caller.project_id, "user_id": caller.user_id}
        known = credentials(caller)
        if IS_ADMIN in self._enforcer.registered_rules:
            known["is_admin"] = self._authorizes(IS_ADMIN, known, known)
        return self._authorizes(rule, target, known)

    def _authorizes(self, rule: str, target: Mapping[str, Any], known: dict[str, Any]) -> bool:
        try:
            return bool(self._enforcer.authorize(rule, dict(target), known))
        except InvalidScope:
            return False

    def _read_again(self) -> None:
        self._checked_at_s = self._clock()
        stamp = _stamp(self._file)
        if stamp == self._stamp:
            return
        self._stamp = stamp
        try:
            self._enforcer = self._read()
        except BadRequest as error:
            log.error("the policy file changed and cannot be used: the rules stay as they were", error=str(error))
            return
        self._remembered.clear()
        self._fields.clear()
        log.info("policy was read again", file=str(self._file))

    def _read(self) -> Enforcer:
        """Return an enforcer that never looks at its file again. Raises BadRequest."""
        conf = cfg.ConfigOpts()
        conf([], project="roost", default_config_files=[], default_config_dirs=[])
        if self._file is not None:
            checks = _checks_of(self._file)
            _check_references(self._file, checks, self._defaults)
            if self._names_known is not None:
                _warn_of_unknown(self._file, checks, self._names_known)
        enforcer = Enforcer(conf, policy_file=str(self._file.resolve()) if self._file else os.devnull)
        conf.set_override("policy_dirs", [], group="oslo_policy")
        conf.set_override("enforce_new_defaults", self._enforce_new_defaults, group="oslo_policy")
        enforcer.suppress_default_change_warnings = True
        enforcer.skip_undefined_check = True  # which warns of the rules of other services
        enforcer.register_defaults(self._defaults)
        enforcer.load_rules()
        enforcer.use_conf = False
        return enforcer


@register("field")
class FieldCheck(Check):
    """`field:RESOURCE:FIELD=VALUE`, or `=~PATTERN`: what is asked about has this there. Source: Neutron's policy."""

    @property
    def field(self) -> str:
        """Return the field that it looks at."""
        return str(self.match.partition(":")[2].partition("=")[0])

    def __call__(self, target: Mapping[str, Any], _creds: Any, _enforcer: Any, _current_rule: Any = None) -> bool:
        """Return whether the target has the value; a field that is missing has not."""
        _, _, expected = self.match.partition(":")[2].partition("=")
        has = target.get(self.field)
        if has is None:
            return False
        if expected.startswith("~"):
            return re.match(expected[1:], str(has)) is not None
        return str(has) == expected


def fields_of(rule: str, rules: Mapping[str, Any]) -> frozenset[str] | None:
    """Return the fields of a target that the rule, and those it refers to, look at; None: unknown."""
    fields: set[str] = set()
    referred: set[str] = set()
    checks: list[Any] = [RuleCheck("rule", rule)]
    while checks:
        check = checks.pop()
        if isinstance(check, RuleCheck):
            if check.match not in referred:
                referred.add(check.match)
                with suppress(KeyError):  # for one that there is not, there may be a default rule
                    checks.append(rules[check.match])
        elif isinstance(check, AndCheck | OrCheck):
            checks += check.rules
        elif isinstance(check, NotCheck):
            checks.append(check.rule)
        elif isinstance(check, FieldCheck):
            fields.add(check.field)
        elif type(check).__module__ != Check.__module__:
            return None  # a check of another library
        elif isinstance(check, Check):  # of the caller, or of the caller's roles
            fields.update(re.findall(r"%\((.*?)\)", check.match))
    return frozenset(fields)


def make_rules(checks: Mapping[str, str], *, scope_types: list[str] | None = None) -> list[RuleDefault]:
    """Return rules by name: made here, so that FieldCheck is registered when their checks are read."""
    return [RuleDefault(name, check, scope_types=scope_types) for name, check in checks.items()]


def opened(defaults: Sequence[RuleDefault], *, but: frozenset[str] = frozenset()) -> list[RuleDefault]:
    """Return the same rules, letting everybody in that has the right scope; those in `but` stay as they are."""
    return [
        rule if rule.name in but else RuleDefault(rule.name, "@", scope_types=rule.scope_types) for rule in defaults
    ]


def credentials(caller: Caller) -> dict[str, Any]:
    """Return what a rule can ask of a caller. Source: oslo.context, RequestContext.to_policy_values."""
    service = caller.service or Caller(None, None)
    return {
        "user_id": caller.user_id,
        "user_domain_id": caller.user_domain_id,
        "system_scope": caller.system_scope,
        "domain_id": caller.domain_id,
        "project_id": caller.project_id,
        "tenant_id": caller.project_id,
        "project_domain_id": caller.project_domain_id,
        "roles": list(caller.roles),
        "service_user_id": service.user_id,
        "service_user_domain_id": service.user_domain_id,
        "service_project_id": service.project_id,
        "service_project_domain_id": service.project_domain_id,
        "service_roles": list(service.roles),
    }


def _stamp(file: Path | None) -> tuple[int, int, int] | None:
    """Return what changes whenever the file does; None where there is none."""
    if file is None:
        return None
    try:
        status = file.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino


def _checks_of(file: Path) -> dict[str, Any]:
    """Return the rules. Raises BadRequest for what oslo.policy would take for nothing, or ask the network for."""
    try:
        rules = yaml.safe_load(file.read_text())
    except (OSError, UnicodeDecodeError) as error:
        raise BadRequest(f"the policy file {file} cannot be read: {error}") from error
    except yaml.YAMLError as error:
        mark, problem = getattr(error, "problem_mark", None), getattr(error, "problem", None)
        where = f", in line {mark.line + 1}" if mark else ""
        raise BadRequest(f"the policy file {file} is not YAML: {problem or error}{where}") from error
    if not isinstance(rules, dict | None):
        raise BadRequest(f"the policy file {file}: expected rules, each a name with its check")
    for name, check in (rules or {}).items():
        if not isinstance(name, str) or not isinstance(check, str | list):
            raise BadRequest(f"the policy file {file}: {name}: expected a rule's name and its check, a text")
        if re.search(r"\bhttps?:", str(check)):
            raise BadRequest(f"the policy file {file}: {name}: rules that ask another server are not supported")
    return {name: _read_check(file, name, check) for name, check in (rules or {}).items()}


def _read_check(file: Path, name: str, check: Any) -> Any:
    """Return the check of a rule. Raises BadRequest where oslo.policy would log a traceback and let nobody in."""
    misread: list[str] = []

    def take(record: logging.LogRecord) -> bool:
        misread.append(str(record.args[0]) if isinstance(record.args, tuple) and record.args else record.getMessage())
        return False

    OSLO_PARSER.addFilter(take)
    try:
        parsed = RuleDefault(name, check).check
    finally:
        OSLO_PARSER.removeFilter(take)
    if misread:
        raise BadRequest(f"the policy file {file}: {name}: {misread[0]!r} is no check such as role:reader")
    return parsed


def _check_references(file: Path, checks: Mapping[str, Any], defaults: Sequence[RuleDefault]) -> None:
    """Raise BadRequest where a rule of these defaults, as the file has it, comes to one that is defined nowhere."""
    names = {rule.name for rule in defaults} | {rule.deprecated_rule.name for rule in defaults if rule.deprecated_rule}
    waiting = [name for name in checks if name in names]
    reached = set(waiting)
    for name in waiting:
        for reference in _references(checks[name]):
            if reference not in names and reference not in checks:
                raise BadRequest(
                    f"the policy file {file}: {name} refers to rule:{reference}, "
                    "which neither the file nor Roost defines for it"
                )
            if reference in checks and reference not in reached:
                reached.add(reference)
                waiting.append(reference)


def _warn_of_unknown(file: Path, checks: Mapping[str, Any], names_known: Collection[str]) -> None:
    """Log which names in the file mean nothing: no service has such a rule, and no rule refers to it."""
    referred = {reference for check in checks.values() for reference in _references(check)}
    unknown = [name for name in checks if name not in names_known and name not in referred]
    if unknown:
        names = ", ".join(unknown[:UNKNOWN_SHOWN]) + (", ..." if len(unknown) > UNKNOWN_SHOWN else "")
        log.warning(f"the policy file {file} has rules that no service of Roost knows, and they do nothing: {names}")


def _references(check: Any) -> Iterator[str]:
    """Yield the names of the rules that a check refers to."""
    if isinstance(check, RuleCheck):
        yield check.match
    elif isinstance(check, AndCheck | OrCheck):
        for part in check.rules:
            yield from _references(part)
    elif isinstance(check, NotCheck):
        yield from _references(check.rule)
