"""docs/style.md section 7: a rule has a table of cases. Every public rule is called by some test of its own.

A rule is a public function of a rule file (rules/, search/, scheduling), or one of the conductor or a seam that awaits
nothing, or a public method or property of their classes. Found by their syntax: nothing is imported.
"""

import ast
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest
from tests.test_house import SRC, Module, read_house

TESTS = Path(__file__).parent
WINGS = ("placement", "network", "compute", "conductor", "scheduling", "seams", "seeing")
"""Wings in which no rule may be without a test."""

Rule = tuple[str, str]
"""(module, name of a function, or Class.name of a method)."""


def is_rule_file(module: Module) -> bool:
    """Whether a file decides and does nothing else."""
    return module.room == "rule" or (module.wing in ("conductor", "seams") and not module.path.endswith("__init__.py"))


def rules_of(module: Module) -> Iterator[Rule]:
    """The public rules of a file, in order. Protocols promise and decide nothing."""
    for node in module.tree.body:
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
            yield module.name, node.name
        elif isinstance(node, ast.ClassDef) and not node.name.startswith("_") and not _is_protocol(node):
            for inner in node.body:
                if isinstance(inner, ast.FunctionDef) and not inner.name.startswith("_"):
                    yield module.name, f"{node.name}.{inner.name}"


def _is_protocol(node: ast.ClassDef) -> bool:
    return any(isinstance(base, ast.Name) and base.id == "Protocol" for base in node.bases)


def calls_of(text: str) -> Iterator[Rule]:
    """What of Roost a test file calls, or hands on to be called: as a name that it imports, or of a module.

    Of a method only its name is seen: it counts for every class of the modules that the file imports from.
    """
    tree = ast.parse(text)
    meaning: dict[str, tuple[str, str]] = {}
    modules, dotted = set(), set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("roost"):
            modules.add(node.module)
            meaning |= {alias.asname or alias.name: (node.module, alias.name) for alias in node.names}
        elif isinstance(node, ast.Import):
            dotted |= {alias.name for alias in node.names if alias.name.startswith("roost")}
    modules |= dotted
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in meaning:
            yield meaning[node.id]
        elif isinstance(node, ast.Attribute):
            yield from ((module, f"*.{node.attr}") for module in modules)
            if isinstance(node.value, ast.Name) and node.value.id in meaning:
                parent, last = meaning[node.value.id]
                yield f"{parent}.{last}", node.attr
            elif dotted and (name := ast.unparse(node.value)) in dotted:
                yield name, node.attr


def uncalled(house: Iterable[Module], tests: Mapping[str, str]) -> list[str]:
    """The rules that no test calls, as module.name without `roost.`."""
    called = {call for text in tests.values() for call in calls_of(text)}
    return [
        f"{module}.{name}".removeprefix("roost.")
        for one in house
        if is_rule_file(one)
        for module, name in rules_of(one)
        if (module, name) not in called and (module, f"*.{name.partition('.')[2]}") not in called
    ]


@cache
def uncalled_here() -> tuple[str, ...]:
    return tuple(uncalled(read_house(SRC), {str(path): path.read_text() for path in sorted(TESTS.rglob("test_*.py"))}))


@pytest.mark.parametrize("wing", WINGS)
def test_every_rule_is_called_by_a_test(wing: str) -> None:
    uncalled_rules = [rule for rule in uncalled_here() if rule.startswith(f"{wing}.")]
    assert not uncalled_rules, "a rule comes with its table of cases:\n" + "\n".join(uncalled_rules)


RULES = {
    "network/rules/links.py": "def shown(): ...\ndef _hidden(): ...\nasync def awaits(): ...\n",
    "network/service/links.py": "def no_rule(): ...\n",
    "scheduling/filters.py": "def narrow(): ...\n",
    "conductor/place.py": "def choose(): ...\nasync def place(): ...\n",
    "seams/audit.py": "class Kind:\n    def show(self): ...\nclass Client(Protocol):\n    def ask(self): ...\n",
}
ALL = ["network.rules.links.shown", "scheduling.filters.narrow", "conductor.place.choose", "seams.audit.Kind.show"]


@pytest.mark.parametrize(
    ("test", "called"),
    [
        ("", ()),
        ("from roost.network.rules.links import shown\n", ()),
        ("from roost.network.rules.links import shown\nshown()\n", ALL[:1]),
        ("from roost.network.rules.links import shown as s\nTABLE = [(s, 1)]\n", ALL[:1]),
        ("from roost.network.rules import links\nlinks.shown()\n", ALL[:1]),
        ("from roost.network.rules import links\nlinks.other()\n", ()),
        ("import roost.network.rules.links\nroost.network.rules.links.shown()\n", ALL[:1]),
        ("from roost.network.rules.other import shown\nshown()\n", ()),
        ("def shown(): ...\nshown()\n", ()),
        ("from roost.scheduling.filters import narrow\nfrom roost.conductor.place import choose\n"
         "narrow(choose())\n", ALL[1:3]),
        ("from roost.seams.audit import Kind\nKind().show()\n", ALL[3:]),
        ("from roost.seams.other import Kind\nKind().show()\n", ()),
    ],
)  # fmt: skip
def test_a_rule_is_called_where_its_own_name_is(test: str, called: Iterable[str]) -> None:
    house = [Module(path, text) for path, text in RULES.items()]
    assert uncalled(house, {"test": test}) == [rule for rule in ALL if rule not in called]
