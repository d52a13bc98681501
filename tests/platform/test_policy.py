"""Policy by oslo.policy: files that override, files that change or break, scopes, and what is remembered."""

import os
from pathlib import Path
from typing import Any

import pytest
from oslo_policy.policy import Check, DeprecatedRule, NotCheck, OrCheck, PolicyNotRegistered, RuleDefault, Rules

from roost.platform import policy as policy_file
from roost.platform.auth import Caller, Forbidden
from roost.platform.errors import BadRequest
from roost.platform.policy import REMEMBERED_MAX, OsloPolicy, fields_of, opened

ADMIN, READER = Caller("a", "p", ("admin",)), Caller("r", "p", ("Reader",))
WAS = DeprecatedRule("thing:old", "role:reader", deprecated_reason="it was too wide", deprecated_since="1")
RULES = [
    RuleDefault("thing:show", "role:admin", scope_types=["project"], deprecated_rule=WAS),
    RuleDefault("thing:own", "project_id:%(project_id)s", scope_types=["project"]),
]


def allows(policy: OsloPolicy, caller: Caller, rule: str = "thing:show", **target: str) -> bool:
    try:
        policy.enforce(caller, rule, target or None)
    except Forbidden:
        return False
    return True


def write(file: Path, text: str, *, age_s: float = 0) -> Path:
    """A policy file with a time of its own: two writes within one tick of the clock must not look alike."""
    file.write_text(text)
    changed_at_s = file.stat().st_mtime - age_s
    os.utime(file, (changed_at_s, changed_at_s))
    return file


class Clock:
    """Seconds that a test moves."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def test_a_refusal_names_the_rule() -> None:
    with pytest.raises(Forbidden) as refused:
        OsloPolicy(RULES).enforce(READER, "thing:show")
    assert str(refused.value) == "Policy does not allow thing:show to be performed."


def test_legacy_defaults_let_in_besides_whom_they_let_in_before() -> None:
    assert [allows(OsloPolicy(RULES), caller) for caller in (ADMIN, READER)] == [True, False]
    legacy = OsloPolicy(RULES, enforce_new_defaults=False)
    assert [allows(legacy, caller) for caller in (ADMIN, READER)] == [True, True]
    assert not allows(legacy, Caller("x", "p"))
    assert not allows(OsloPolicy(RULES), READER)  # one policy's setting is not another's


def test_a_file_overrides_defaults(tmp_path: Path) -> None:
    file = write(tmp_path / "policy.yaml", '"thing:show": "role:reader"\n')
    policy = OsloPolicy(RULES, file=file)
    assert [allows(policy, caller) for caller in (ADMIN, READER)] == [False, True]
    assert allows(policy, READER, "thing:own")


def test_without_a_target_the_rule_is_asked_of_what_is_the_callers_own() -> None:
    policy = OsloPolicy(RULES)
    assert allows(policy, READER, "thing:own")
    assert allows(policy, READER, "thing:own", project_id="p")
    assert not allows(policy, READER, "thing:own", project_id="q")


@pytest.mark.parametrize("caller", [Caller("a", None, ("admin",), "all"), Caller("a", None, ("admin",), domain_id="d")])
def test_another_scope_than_a_project_is_let_in_by_nothing(caller: Caller) -> None:
    for policy in (OsloPolicy(RULES), OsloPolicy(RULES, enforce_new_defaults=False), OsloPolicy(opened(RULES))):
        assert not allows(policy, caller)


def test_opened_rules_let_everybody_in_but_where_said() -> None:
    policy = OsloPolicy(opened(RULES, but=frozenset({"thing:own"})))
    nobody = Caller("x", "p")
    assert allows(policy, nobody)
    assert not allows(policy, nobody, "thing:own", project_id="q")


def test_a_service_that_passes_a_request_on_can_be_asked_for(tmp_path: Path) -> None:
    policy = OsloPolicy(RULES, file=write(tmp_path / "p.yaml", '"thing:show": "service_roles:service"'))
    assert allows(policy, Caller("u", "p", service=Caller("nova", "s", ("service",))))
    assert not allows(policy, Caller("u", "p", ("service",)))


def test_a_file_that_changes_counts_within_a_second_and_is_not_looked_at_before(tmp_path: Path) -> None:
    clock = Clock()
    file = write(tmp_path / "policy.yaml", '"thing:show": "role:reader"', age_s=10)
    policy = OsloPolicy(RULES, file=file, clock=clock)
    assert allows(policy, READER)
    write(file, '"thing:show": "role:admin"')
    clock.now_s = 0.9
    assert allows(policy, READER)
    clock.now_s = 1.0
    assert not allows(policy, READER)
    assert allows(policy, ADMIN)


@pytest.mark.parametrize("broken", [None, "- a list", '"thing:show": ', "{", '"thing:show": "http://opa/x"'])
def test_a_file_that_breaks_later_leaves_the_rules_as_they_were(tmp_path: Path, broken: str | None) -> None:
    clock = Clock()
    file = write(tmp_path / "policy.yaml", '"thing:show": "role:reader"', age_s=10)
    policy = OsloPolicy(RULES, file=file, clock=clock)
    if broken is None:
        file.unlink()
    else:
        write(file, broken, age_s=5)
    clock.now_s = 5.0
    assert [allows(policy, caller) for caller in (ADMIN, READER)] == [False, True]
    write(file, '"thing:show": "role:admin"')
    clock.now_s = 10.0
    assert [allows(policy, caller) for caller in (ADMIN, READER)] == [True, False]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "cannot be read"),
        ("{", "is not YAML: expected the node content, but found '<stream end>', in line 1"),
        ('"thing:show": "role:a annd role:b"', "thing:show: 'annd' is no check such as role:reader"),
        ('"thing:show": "role:a role:b"', "thing:show: 'role:a role:b' is no check"),
        ('"thing:show": [["role:a", "b"]]', "thing:show: 'b' is no check"),
        ("- a list", "expected rules"),
        ('"thing:show": 7', "thing:show: expected a rule's name and its check"),
        ('"thing:show": "role:admin or https://opa/x"', "thing:show: rules that ask another server"),
    ],
)
def test_a_wrong_file_is_refused_with_a_sentence(tmp_path: Path, text: str | None, said: str) -> None:
    file = tmp_path / "policy.yaml"
    if text is not None:
        file.write_text(text)
    with pytest.raises(BadRequest, match=said) as refused:
        OsloPolicy(RULES, file=file)
    assert str(file) in str(refused.value)


OTHERS = '"other:show": "rule:other_admin"\n"other:list": "not rule:other_owner or (role:a and rule:other_admin)"\n'


def test_the_rules_of_other_services_in_the_file_are_not_complained_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write(tmp_path / "p.yaml", OTHERS + '"thing:show": "rule:mine"\n"mine": "role:reader and rule:thing:own"')
    policy = OsloPolicy(RULES, file=file, names_known={"thing:show", "thing:own", "other:show", "other:list"})
    assert [allows(policy, caller) for caller in (ADMIN, READER)] == [False, True]
    assert (caplog.records, capsys.readouterr()) == ([], ("", ""))


@pytest.mark.parametrize(
    ("rules", "name"),
    [
        ('"thing:show": "role:admin or rule:nosuch_rule"', "thing:show"),
        ('"thing:show": "not rule:nosuch_rule"', "thing:show"),
        ('"thing:show": "rule:mine"\n"mine": "role:a and rule:nosuch_rule"', "mine"),
        ('"thing:old": "rule:nosuch_rule"', "thing:old"),
    ],
)
def test_a_rule_that_refers_to_nothing_is_refused_and_later_changes_nothing(
    tmp_path: Path, rules: str, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file, clock = tmp_path / "p.yaml", Clock()
    policy = OsloPolicy(RULES, file=write(file, '"thing:show": "role:reader"', age_s=10), clock=clock)
    write(file, OTHERS + rules)
    said = f"the policy file {file}: {name} refers to rule:nosuch_rule, which neither the file nor Roost defines for it"
    with pytest.raises(BadRequest) as refused:
        OsloPolicy(RULES, file=file)
    assert str(refused.value) == said
    clock.now_s = 5.0
    assert allows(policy, READER)
    assert said in capsys.readouterr().out


def test_a_rule_that_no_service_knows_is_named_in_the_log(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = write(tmp_path / "p.yaml", OTHERS + '"thing:shwo": "rule:mine"\n"mine": "@"\n')
    OsloPolicy(RULES, file=file)
    assert capsys.readouterr().out == ""
    OsloPolicy(RULES, file=file, names_known={"thing:show", "other:show", "other:list"})
    (line,) = capsys.readouterr().out.splitlines()
    assert f"the policy file {file} has rules that no service of Roost knows, and they do nothing: thing:shwo" in line


def test_an_empty_file_overrides_nothing(tmp_path: Path) -> None:
    policy = OsloPolicy(RULES, file=write(tmp_path / "policy.yaml", "# nothing yet\n"))
    assert [allows(policy, caller) for caller in (ADMIN, READER)] == [True, False]


def test_a_rule_that_cannot_be_read_is_refused_without_a_traceback(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """oslo.policy logs two tracebacks and lets nobody in, and does not say which rule it was."""
    with pytest.raises(BadRequest, match="thing:show: 'role:admin or or' is no check"):
        OsloPolicy(RULES, file=write(tmp_path / "policy.yaml", '"thing:show": "role:admin or or"'))
    assert caplog.records == []


def test_a_rule_that_nobody_registered_is_a_bug() -> None:
    with pytest.raises(PolicyNotRegistered):
        OsloPolicy(RULES).enforce(ADMIN, "thing:unknown")


def test_an_answer_is_asked_of_oslo_policy_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = 0
    authorize = policy_file.Enforcer.authorize

    def counted(self: policy_file.Enforcer, *args: object) -> bool:
        nonlocal asked
        asked += 1
        return authorize(self, *args)

    monkeypatch.setattr(policy_file.Enforcer, "authorize", counted)
    policy = OsloPolicy(RULES)
    for _ in range(3):
        assert allows(policy, ADMIN)
        assert not allows(policy, READER)
    assert asked == 2
    assert allows(policy, ADMIN, project_id="q")
    assert asked == 3


@pytest.mark.parametrize(
    ("check", "fields"),
    [
        ("", set()), ("@", set()), ("!", set()), ("role:admin", set()), ("user_id:%(user_id)s", {"user_id"}),
        ("'x':%(network:tenant_id)s", {"network:tenant_id"}), ("role:%(wanted)s", {"wanted"}),
        ("field:networks:router:external=True", {"router:external"}), ("field:port:owner=~^a=b:", {"owner"}),
        ("not rule:owner or (role:a and project_id:%(project_id)s)", {"tenant_id", "project_id"}),
        ("rule:loop", {"a"}), ("rule:nowhere", {"the_default"}), ("odd:%(thing)s", None), ("not odd:x or @", None),
    ],
)  # fmt: skip
def test_a_rule_is_asked_again_only_for_what_it_looks_at(check: str, fields: set[str] | None) -> None:
    class Odd(Check):
        """As a plugin of oslo.policy may be."""

        def __call__(self, target: Any, creds: Any, enforcer: Any, current_rule: Any = None) -> bool:
            return True

    texts = {"owner": "tenant_id:%(tenant_id)s", "loop": "a:%(a)s or rule:loop", "default": "x:%(the_default)s"}
    rules = Rules({name: RuleDefault(name, text).check for name, text in {**texts, "asked": check}.items()}, "default")
    if "odd:" in check:
        odd = Odd("odd", "%(thing)s")
        rules["asked"] = odd if check.startswith("odd") else OrCheck([NotCheck(odd), rules["owner"]])
    assert fields_of("asked", rules) == fields


def test_what_differs_only_where_no_rule_looks_is_decided_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """10,000 ports, each with a device_owner of its own, took a worker thirteen seconds for every list."""
    decided = []
    decide = OsloPolicy._decide

    def counted(self: OsloPolicy, *args: Any) -> bool:
        decided.append(args)
        return decide(self, *args)

    monkeypatch.setattr(OsloPolicy, "_decide", counted)
    policy = OsloPolicy(RULES)
    for number in range(50):
        assert allows(policy, READER, "thing:own", project_id="p", device_owner=str(number))
        assert not allows(policy, READER, "thing:own", project_id="q", device_owner=str(number))
        assert not allows(policy, READER, "thing:own", device_owner=str(number))
    assert len(decided) == 3


def test_what_is_remembered_has_a_limit() -> None:
    policy = OsloPolicy(RULES)
    for number in range(REMEMBERED_MAX + 10):
        assert not allows(policy, READER, "thing:own", project_id=str(number))
        assert len(policy._remembered) <= REMEMBERED_MAX
