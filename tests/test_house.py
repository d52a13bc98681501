"""docs/style.md sections 1 and 2 and the imports of docs/design.md section 2, on every file of src/roost.

A breach is reported as file:line: rule. The rules are tried on small broken houses at the end.
"""

import ast
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

import pytest

SRC = Path(__file__).parents[1] / "src" / "roost"

LINES_MAX, FUNCTION_LINES_MAX = 470, 59
FORBIDDEN_NAMES = {"utils", "util", "helpers", "helper", "common", "base", "manager", "misc"}
BARE_NAMES = {
    *("found", "one", "held", "wanted", "asked", "made", "given", "left", "said", "told", "mine", "there", "around"),
    "behind",
}
VERBS = re.compile(
    r"(Accept|Add|Allow|Answer|Append|Ask|Assign|Attach|Begin|Believe|Bind|Bring|Build|Call|Carry|Change|Check|"
    r"Claim|Close|Compare|Confirm|Count|Create|Decide|Delete|Derive|Drop|End|Fill|Find|Forget|Give|Go|Have|Hold|"
    r"Insert|Join|Keep|Lease|Leave|Let|List|Lock|Log|Make|Mark|Match|Move|Name|Note|Notify|Order|Pass|Pin|Place|Publish|"
    r"Put|Raise|Read|Rebuild|Record|Release|Remember|Rename|Renew|Repair|Repeat|Replace|Reshape|Return|Run|Say|Search|"
    r"See|Send|Set|Show|Shut|Split|Start|Stop|Take|Tell|Trim|Try|Unassign|Unlock|Wait|Wake|Withdraw|Write|Yield)\b"
)
"""A function's docstring begins with one of these; a verb that is missing is added."""
READ_TWICE = (
    "Raise why the first of those cannot be that cannot.",
    "Which transaction wrote the subnet as it is",
    "addresses that followed from the one before",
    "Whoever asked for them does not wait any more.",
    "When subnets that are no capacity are full for all of them",
    "All of them have.",
    "The same of one; None when there is none.",
    "One of them.",
    "A null empties.",
    "Their servers have these ports, which are locked, no more.",
    "those whose claims move, or of which it is not noted yet",
    "The ledger counts what it was told; False if some ports are others since",
)
"""The bad examples of docs/style.md, and others that a reader had to read twice."""
SERVICES = ("placement", "network", "compute")
ROOMED = (*SERVICES, "seeing")
"""Wings whose files stand in rooms."""
ENTRY_POINTS = {"roost.cli.entry", "roost.cli.serving.process"}
ROOMS = {
    **{"model": "model", "model.py": "model", "errors.py": "model", "settings.py": "model"},
    **{"rules": "rule", "search": "rule", "store": "store", "service": "service", "api": "api"},
    "migrations": "migration",
}
"""A file or folder of a service's wing -> its room."""
OLD_AGENTS = "old_agents"
"""Files and folders of this name serve agents below service version 3, in rooms of their own."""
IN_A_SERVICE = rf"roost\.\w+\.({OLD_AGENTS}\.)?"
KNOW_OLD_AGENTS = {
    *("cli/serving/cloud_wiring.py", "cli/managing/upgrade_check.py"),
    *("cli/agent_command.py", "agent/agent.py", "network/api/ports.py", "clients/local_network.py"),
}
"""What wires them, in services and in agents; release 2.0 takes these lines out, and deletes the rest."""

WINGS: dict[str, tuple[str, ...]] = {
    "platform": (),
    "seams": ("seams",),
    "placement": ("placement", "seams.placement", "seams.neutron", "seams.service_types", "seams.addresses"),
    "network": ("network", "seams"),
    "compute": ("compute", "seams"),
    "scheduling": ("scheduling", "seams", "placement.model", "network.model", "compute.model"),
    "conductor": ("conductor", "scheduling", "seams", "compute.service", "compute.model", "compute.old_agents.service"),
    "seeing": (
        *("seeing", "scheduling", "seams"),
        *(f"{service}.{room}" for service in SERVICES for room in ("service", "model", "errors")),
        "placement.search",
    ),
    "agent": ("agent", "seams.agent", "seams.guests", "seams.old_agents"),
    "clients": ("clients", "seams", *SERVICES),
    "cli": ("",),
}
"""What each wing may import of Roost, besides platform."""

IMPURE = {
    *("asyncio", "asyncpg", "aiohttp", "starlette", "structlog", "logging", "os", "pathlib", "random", "secrets"),
    *("socket", "subprocess", "tempfile", "threading", "time", "sqlalchemy", "roost.platform.config"),
    *("roost.platform.database", "roost.platform.env", "roost.platform.http", "roost.platform.wakeup"),
}
ASKS_THE_WORLD = {"now", "utcnow", "today", "uuid1", "uuid4", "Random"}
HARMLESS = {"random.Random", "roost.platform.http.is_uuid", "roost.platform.http.canonical_uuid"}
"""Names that a room may take from a module it may not: a type that is given, functions of text alone."""
SQL = re.compile(r"\s*(--[^\n]*\n\s*)?(SELECT|INSERT INTO|UPDATE|DELETE FROM|WITH|LOCK TABLE|MERGE INTO)\s[^.]*\s")
ROOM_IMPORTS: dict[str, set[str]] = {
    "model": IMPURE,
    "rule": IMPURE,
    "store": {"starlette", "aiohttp", "structlog", "logging", "random", "time", "roost.platform.http"},
    "service": {"starlette", "aiohttp", "roost.platform.http"},
    "api": {"asyncpg", "aiohttp", "sqlalchemy"},
}


@dataclass(frozen=True)
class Module:
    """One file of the house; path: below src/roost."""

    path: str
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text, self.path)

    @cached_property
    def nodes(self) -> list[ast.AST]:
        return list(ast.walk(self.tree))

    @property
    def name(self) -> str:
        parts = ["roost", *self.path.removesuffix(".py").split("/")]
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    @property
    def wing(self) -> str:
        return self.path.split("/")[0] if "/" in self.path else ""

    @property
    def room(self) -> str:
        """model, rule, store, service or api; "" outside the services and scheduling, whose files are all rules."""
        if self.path.endswith("__init__.py"):
            return ""
        if self.wing in ROOMED:
            return ROOMS.get(self.path.replace(f"/{OLD_AGENTS}/", "/").split("/")[1], "")
        return "rule" if self.wing == "scheduling" else ""

    @cached_property
    def imports(self) -> list[tuple[str, int]]:
        """(what is imported: a module, or a module and a name in it, line)."""
        found: list[tuple[str, int]] = []
        for node in self.nodes:
            if isinstance(node, ast.Import):
                found += ((alias.name, node.lineno) for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module:
                found += ((f"{node.module}.{alias.name}", node.lineno) for alias in node.names)
        return found

    @cached_property
    def uses(self) -> list[tuple[str, int]]:
        """(what is named by way of an imported module: the module and the name in it, line)."""
        alias_of = {
            alias.asname or alias.name: f"{node.module}.{alias.name}"
            for node in self.nodes
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
        }
        return [
            (f"{alias_of[node.value.id]}.{node.attr}", node.lineno)
            for node in self.nodes
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in alias_of
        ]


House = Sequence[Module]
Breach = tuple[Module, int, str]


@cache
def read_house(root: Path) -> list[Module]:
    return [Module(str(path.relative_to(root)), path.read_text()) for path in sorted(root.rglob("*.py"))]


def _within(imported: str, allowed: str) -> bool:
    return imported == allowed or imported.startswith(f"{allowed}.") or allowed == "roost."


def files_are_short(house: House) -> Iterator[Breach]:
    for module in house:
        lines = module.text.count("\n")
        if lines > LINES_MAX:
            yield module, LINES_MAX, f"{lines} lines, {LINES_MAX} are the most"


def functions_fit_a_screen(house: House) -> Iterator[Breach]:
    for module in house:
        for node in module.nodes:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = (node.end_lineno or 0) - node.lineno + 1
                if lines > FUNCTION_LINES_MAX:
                    yield module, node.lineno, f"{node.name} has {lines} lines, {FUNCTION_LINES_MAX} are the most"


def files_say_what_they_are(house: House) -> Iterator[Breach]:
    for module in house:
        if module.text.strip() and not ast.get_docstring(module.tree):
            yield module, 1, "no docstring: what does this file decide, and what does it leave to whom?"
        for part in module.path.removesuffix(".py").split("/"):
            if set(part.split("_")) & FORBIDDEN_NAMES:
                yield module, 1, f"{part!r} is no noun of docs/design.md"


def names_say_what_they_name(house: House) -> Iterator[Breach]:
    for module in house:
        kept = "held" if module.path == "compute/model/work.py" else ""  # Plan.held is written in databases
        for node in module.nodes:
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id in BARE_NAMES - {kept}:
                yield module, node.lineno, f"{node.id!r} names no kind of thing: {node.id}_… or a noun"


def docstrings_without_a_verb(house: House) -> Iterator[Breach]:
    """The wing that had most of them has none, nor has the youngest; migrations stay."""
    for module in (one for one in house if one.wing in ("network", "seeing") and one.room != "migration"):
        for node in module.nodes:
            words = ast.get_docstring(node) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) else ""
            if words and not VERBS.match(words):
                yield module, node.lineno, f"{words.split()[0]!r} is no verb of VERBS"


def sentences_to_read_twice(house: House) -> Iterator[Breach]:
    for module in house:
        text = " ".join(module.text.split())
        yield from ((module, 1, sentence) for sentence in READ_TWICE if sentence in text)


def services_files_are_in_rooms(house: House) -> Iterator[Breach]:
    for module in house:
        if module.wing in ROOMED and not module.room and not module.path.endswith("__init__.py"):
            yield module, 1, f"in no room: expected one of {', '.join(ROOMS)} below {module.wing}/"


def rooms_import_what_they_may(house: House) -> Iterator[Breach]:
    for module in house:
        forbidden = ROOM_IMPORTS.get(module.room, set())
        for imported, line in module.imports:
            if imported not in HARMLESS and any(_within(imported, name) for name in forbidden):
                yield module, line, f"a {module.room} file may not import {imported}"
            if module.room in ("rule", "model") and re.match(rf"{IN_A_SERVICE}(store|service|api)\b", imported):
                yield module, line, f"a {module.room} file may not import {imported}"
            if module.room == "api" and re.match(rf"{IN_A_SERVICE}store\b", imported):
                yield module, line, f"an api file calls its service, not {imported}"
            if module.room == "store" and re.match(rf"{IN_A_SERVICE}(service|api)\b", imported):
                yield module, line, f"a store file may not import {imported}"


def structs_of_two_rooms_are_in_the_model(house: House) -> Iterator[Breach]:
    """What a store and a rule, or a store and its callers exchange is the wing's word, and so in its model."""
    structs = {
        f"{module.name}.{node.name}": module
        for module in house
        if module.room in ("rule", "store")
        for node in module.tree.body
        if isinstance(node, ast.ClassDef)
    }
    for module in house:
        for name, line in [*module.imports, *module.uses]:
            owner = structs.get(name)
            if owner and owner.room != module.room and "store" in (owner.room, module.room):
                yield module, line, f"{name} is used by two rooms: it belongs in the model of {owner.wing}"


def rules_are_pure(house: House) -> Iterator[Breach]:
    for module in house:
        if module.room not in ("rule", "model"):
            continue
        for node in module.nodes:
            if isinstance(node, ast.AsyncFunctionDef | ast.Await | ast.AsyncFor | ast.AsyncWith):
                yield module, node.lineno, f"a {module.room} file awaits nothing"
            if isinstance(node, ast.Call):
                called = node.func
                name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
                if name in ASKS_THE_WORLD or name in ("open", "print"):
                    yield module, node.lineno, f"a {module.room} file may not call {name}(): take it as an argument"


def sql_lives_in_constants_of_stores(house: House) -> Iterator[Breach]:
    for module in house:
        if module.wing not in (*ROOMED, "scheduling", "conductor", "agent", "clients"):
            continue
        constants = set()
        for statement in module.tree.body:
            if isinstance(statement, ast.Assign | ast.AnnAssign):
                constants |= {id(node) for node in ast.walk(statement)}
        docstrings = {id(node.value) for node in module.nodes if isinstance(node, ast.Expr)}
        for node in module.nodes:
            if not (isinstance(node, ast.Constant) and isinstance(node.value, str)) or id(node) in docstrings:
                continue
            if not SQL.match(node.value):
                continue
            if module.room != "store":
                yield module, node.lineno, "SQL outside a store file"
            elif id(node) not in constants:
                yield module, node.lineno, "SQL that is not a constant of the module"
            elif not re.match(rf"\s*-- {module.wing}\.\w+", node.value):
                yield module, node.lineno, f"a statement starts with `-- {module.wing}.function`"


def transactions_belong_to_services(house: House) -> Iterator[Breach]:
    for module in house:
        if module.room not in ("api", "store", "rule", "model"):
            continue
        for node in module.nodes:
            if isinstance(node, ast.Attribute) and node.attr == "transaction":
                yield module, node.lineno, f"a {module.room} file opens no transaction"


def wings_import_what_they_may(house: House) -> Iterator[Breach]:
    for module in house:
        for imported, line in module.imports:
            if not imported.startswith("roost.") or _within(imported, "roost.platform"):
                continue
            allowed = WINGS.get(module.wing)
            if allowed is None:
                yield module, line, f"{module.wing or 'the root'} is no wing of docs/design.md"
            elif not any(_within(imported, f"roost.{name}") for name in allowed):
                yield module, line, f"{module.wing} may not import {imported}"


def only_the_wiring_knows_old_agents(house: House) -> Iterator[Breach]:
    for module in house:
        is_of_them = OLD_AGENTS in module.name.split(".")
        for imported, line in module.imports if not is_of_them and module.path not in KNOW_OLD_AGENTS else ():
            if imported.startswith("roost.") and OLD_AGENTS in imported.split("."):
                yield module, line, f"only what wires old agents imports {imported}"


WRITES = re.compile(r"(?:INSERT INTO|UPDATE|DELETE FROM) network\.(\w+)(?! a SET assigned_for = NULL)\b")
"""A write of a table; which build an address was assigned for is the port's, and changed with it."""
WRITERS = {"address": "addresses", "free_range": "addresses", "intent": "claims"}
"""Table of the network schema -> the one file of network/service that writes it."""


def one_file_writes_addresses_and_one_intents(house: House) -> Iterator[Breach]:
    writers: dict[str, str] = {}
    for module in (module for module in house if module.wing == "network" and module.room == "store"):
        tables = {
            name.id: table
            for node in module.tree.body
            if isinstance(node, ast.Assign)
            for name in node.targets
            if isinstance(name, ast.Name)
            for table in WRITES.findall(ast.unparse(node.value))
            if table in WRITERS
        }
        for function in (node for node in module.tree.body if isinstance(node, ast.AsyncFunctionDef)):
            for node in ast.walk(function):
                if isinstance(node, ast.Name) and node.id in tables:
                    writers[f"{module.name}.{function.name}"] = WRITERS[tables[node.id]]
    for module in (module for module in house if module.wing == "network"):
        for name, line in module.imports + module.uses if module.room != "store" else ():
            if name in writers and module.path != f"network/service/{writers[name]}.py":
                yield module, line, f"only network/service/{writers[name]}.py calls {name}"


PORTS_OF_CLIENTS = {"ports", "creations"}
PORTS_OF_SERVERS = {"builds", "moves"}
"""Files of network/service: ports as clients ask for them, and as the conductor does."""


def clients_ports_and_servers_ports_stand_apart(house: House) -> Iterator[Breach]:
    sides = (PORTS_OF_CLIENTS, PORTS_OF_SERVERS)
    for module in house:
        name = module.path.removeprefix("network/service/").removesuffix(".py")
        others = [other for side, others in (sides, sides[::-1]) if name in side for other in others]
        for imported, line in module.imports:
            if any(_within(imported, f"roost.network.service.{other}") for other in others):
                yield module, line, f"{module.path} may not import {imported}"


def only_capacity_changes_providers(house: House) -> Iterator[Breach]:
    """The audit reads them with `get_providers`. Claims alone change no provider."""
    changes = {"ensure_providers", "fit_providers", "reshape", "delete_providers", "set_placement_aggregates"}
    for module in house:
        for node in module.nodes if module.wing == "network" and module.path != "network/service/capacity.py" else ():
            if isinstance(node, ast.Attribute) and node.attr in changes:
                yield module, node.lineno, f"only network/service/capacity.py calls {node.attr}"


def platform_names_no_wing(house: House) -> Iterator[Breach]:
    for module in house:
        for node in module.nodes if module.wing == "platform" else ():
            if isinstance(node, ast.Constant) and node.value in WINGS and node.value != "platform":
                yield module, node.lineno, f"platform names the wing {node.value}"


def _edges(house: House) -> dict[str, dict[str, int]]:
    """Module -> module it imports -> line."""
    names = {module.name for module in house}
    found: dict[str, dict[str, int]] = {}
    for module in house:
        to = found.setdefault(module.name, {})
        for imported, line in module.imports:
            target = imported if imported in names else imported.rpartition(".")[0]
            if target in names and target != module.name:
                to.setdefault(target, line)
    return found


SEAM_METHODS_MAX = 8
REMOTE = re.compile(r"Remote: ((GET|POST|PUT|DELETE) /|none; )")


def _methods(node: ast.ClassDef) -> list[ast.AsyncFunctionDef]:
    return [inner for inner in node.body if isinstance(inner, ast.AsyncFunctionDef)]


def seams_are_small_and_name_their_remote_calls(house: House) -> Iterator[Breach]:
    """A protocol that only joins others is how one consumer knows a neighbour; each of those counts by itself."""
    for module in house:
        protocols = {
            node.name: node
            for node in module.tree.body
            if isinstance(node, ast.ClassDef) and any(ast.unparse(parent) == "Protocol" for parent in node.bases)
        }
        for node in protocols.values() if module.wing == "seams" else ():
            parents = [protocols[name] for base in node.bases if (name := ast.unparse(base)) in protocols]
            count = sum(len(_methods(one)) for one in (node, *parents))
            if _methods(node) and count > SEAM_METHODS_MAX:
                yield module, node.lineno, f"{node.name} has {count} methods, {SEAM_METHODS_MAX} are the most"
            for method in _methods(node):
                if not REMOTE.search(ast.get_docstring(method) or ""):
                    yield module, method.lineno, f"{node.name}.{method.name} names no call of a remote service"


def imports_make_no_circle(house: House) -> Iterator[Breach]:
    edges, by_name = _edges(house), {module.name: module for module in house}
    done: set[str] = set()

    def walk(name: str, path: tuple[str, ...]) -> Iterator[Breach]:
        for target, line in edges[name].items():
            if target in path:
                circle = " -> ".join((*path[path.index(target) :], target))
                yield by_name[name], line, f"import circle: {circle}"
            elif target not in done:
                yield from walk(target, (*path, target))
        done.add(name)

    for name in edges:
        if name not in done:
            yield from walk(name, (name,))


def every_file_is_used(house: House) -> Iterator[Breach]:
    used = {target for targets in _edges(house).values() for target in targets} | ENTRY_POINTS
    for module in house:
        alone = module.name not in used and not module.path.endswith("__init__.py")
        if alone and "migrations/" not in module.path:
            yield module, 1, "nothing imports this file"


RULES: tuple[Callable[[House], Iterator[Breach]], ...] = (
    files_are_short,
    functions_fit_a_screen,
    files_say_what_they_are,
    names_say_what_they_name,
    docstrings_without_a_verb,
    sentences_to_read_twice,
    services_files_are_in_rooms,
    rooms_import_what_they_may,
    structs_of_two_rooms_are_in_the_model,
    rules_are_pure,
    sql_lives_in_constants_of_stores,
    transactions_belong_to_services,
    wings_import_what_they_may,
    only_the_wiring_knows_old_agents,
    one_file_writes_addresses_and_one_intents,
    clients_ports_and_servers_ports_stand_apart,
    only_capacity_changes_providers,
    platform_names_no_wing,
    seams_are_small_and_name_their_remote_calls,
    imports_make_no_circle,
    every_file_is_used,
)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_the_house_holds(rule: Callable[[House], Iterator[Breach]]) -> None:
    house = read_house(SRC)
    assert len(house) > 20
    breaches = [f"src/roost/{module.path}:{line}: {text}" for module, line, text in rule(house)]
    assert not breaches, "\n" + "\n".join(breaches)


def test_the_design_is_read_in_one_sitting() -> None:
    assert len((SRC.parents[1] / "docs" / "design.md").read_text().split()) <= 4450, "words"


DOC = '"""What it is."""\n'
PROMISES = '    async def ask(self) -> int:\n        """Return it.\n\n        Remote: GET /it.\n        """\n'


@pytest.mark.parametrize(
    ("rule", "files", "said"),
    [
        (files_are_short, {"cli/a.py": DOC + "x = 1\n" * 470}, "471 lines, 470 are the most"),
        (
            structs_of_two_rooms_are_in_the_model,
            {
                "network/rules/a.py": "class Port: ...\n",
                "network/store/a.py": "from roost.network.rules.a import Port\n",
            },
            "roost.network.rules.a.Port is used by two rooms",
        ),
        (
            structs_of_two_rooms_are_in_the_model,
            {
                "network/store/a.py": "class Row: ...\n",
                "network/service/b.py": "from roost.network.store import a as rows\nx = rows.Row()\n",
            },
            "roost.network.store.a.Row is used by two rooms",
        ),
        (functions_fit_a_screen, {"cli/a.py": DOC + "def f():\n" + "    x = 1\n" * 60}, "f has 61 lines"),
        (files_say_what_they_are, {"cli/a.py": "x = 1\n"}, "no docstring"),
        (files_say_what_they_are, {"cli/http_utils.py": DOC}, "'http_utils' is no noun"),
        (files_say_what_they_are, {"network/common/a.py": DOC}, "'common' is no noun"),
        (
            rooms_import_what_they_may,
            {"placement/rules/claims.py": "import random\n"},
            "a rule file may not import random",
        ),
        (names_say_what_they_name, {"cli/a.py": "found = 1\n"}, "'found' names no kind of thing"),
        (
            docstrings_without_a_verb,
            {"network/a.py": 'def f():\n    """Return it."""\ndef g():\n    """It, as it is."""\n'},
            "'It,' is no verb",
        ),
        (sentences_to_read_twice, {"network/a.py": '"""They go. All of\n    them have."""\n'}, "All of them have."),
        (services_files_are_in_rooms, {"network/a.py": DOC}, "in no room"),
        (rooms_import_what_they_may, {"network/model.py": "import asyncpg\n"}, "a model file may not import asyncpg"),
        (
            rooms_import_what_they_may,
            {"network/rules/a.py": "from roost.network.store import b\n"},
            "a rule file may not",
        ),
        (rooms_import_what_they_may, {"network/api/a.py": "from roost.network import store\n"}, "calls its service"),
        (rooms_import_what_they_may, {"network/service/a.py": "import starlette.routing\n"}, "a service file may not"),
        (rooms_import_what_they_may, {"network/store/a.py": "from roost.network import service\n"}, "a store file may"),
        (rules_are_pure, {"scheduling/a.py": "async def f() -> None: ...\n"}, "a rule file awaits nothing"),
        (rules_are_pure, {"scheduling/a.py": "x = datetime.now(UTC)\n"}, "may not call now()"),
        (rules_are_pure, {"scheduling/a.py": "x = uuid4()\n"}, "may not call uuid4()"),
        (sql_lives_in_constants_of_stores, {"network/api/a.py": 'X = "SELECT 1 FROM x"\n'}, "SQL outside a store"),
        (sql_lives_in_constants_of_stores, {"conductor/a.py": 'x("DELETE FROM a WHERE b")\n'}, "SQL outside a store"),
        (
            sql_lives_in_constants_of_stores,
            {"network/store/a.py": 'X = "SELECT 1 FROM x"\n'},
            "starts with `-- network.",
        ),
        (
            sql_lives_in_constants_of_stores,
            {"network/store/a.py": 'def f():\n    return g("-- network.f\\nSELECT 1 FROM x")\n'},
            "not a constant of the module",
        ),
        (transactions_belong_to_services, {"network/api/a.py": "x = d.transaction()\n"}, "opens no transaction"),
        (wings_import_what_they_may, {"network/rules/a.py": "import roost.compute.model\n"}, "network may not import"),
        (
            wings_import_what_they_may,
            {"placement/rules/a.py": "from roost.seams import network\n"},
            "placement may not",
        ),
        (wings_import_what_they_may, {"conductor/a.py": "from roost.compute import store\n"}, "conductor may not"),
        (wings_import_what_they_may, {"agent/a.py": "from roost.seams import network\n"}, "agent may not import"),
        (
            only_the_wiring_knows_old_agents,
            {"conductor/a.py": "from roost.compute.old_agents.service import ports\n"},
            "only what wires old agents imports roost.compute.old_agents.service.ports",
        ),
        (
            rooms_import_what_they_may,
            {"compute/old_agents/rules/a.py": "from roost.compute.old_agents.store import b\n"},
            "a rule file may not",
        ),
        (
            one_file_writes_addresses_and_one_intents,
            {
                "network/store/a.py": 'A = """\n-- network.a\nDELETE FROM network.address"""\nasync def a(): b(A)\n',
                "network/service/b.py": "from roost.network.store import a as rows\nx = rows.a\n",
            },
            "only network/service/addresses.py calls roost.network.store.a.a",
        ),
        (
            one_file_writes_addresses_and_one_intents,
            {
                "network/store/a.py": "A = f'WITH b AS (SELECT) INSERT INTO network.intent {x}'\nasync def a(): b(A)\n",
                "network/service/addresses.py": "from roost.network.store.a import a\n",
            },
            "only network/service/claims.py calls roost.network.store.a.a",
        ),
        (
            clients_ports_and_servers_ports_stand_apart,
            {"network/service/moves.py": "from roost.network.service import addresses, ports\n"},
            "network/service/moves.py may not import roost.network.service.ports",
        ),
        (
            only_capacity_changes_providers,
            {"network/service/a.py": "x = networks.placement.reshape([], [])\n"},
            "only network/service/capacity.py calls reshape",
        ),
        (platform_names_no_wing, {"platform/a.py": 'x = ("network",)\n'}, "platform names the wing network"),
        (wings_import_what_they_may, {"attic/a.py": "from roost.seams import compute\n"}, "attic is no wing"),
        (
            seams_are_small_and_name_their_remote_calls,
            {"seams/a.py": "class A(Protocol):\n" + PROMISES * 5 + "class B(A, Protocol):\n" + PROMISES * 4},
            "B has 9 methods, 8 are the most",
        ),
        (
            seams_are_small_and_name_their_remote_calls,
            {"seams/a.py": "class A(Protocol):\n    async def ask(self) -> int:\n        " + DOC},
            "A.ask names no call of a remote service",
        ),
        (
            imports_make_no_circle,
            {"cli/a.py": "from roost.cli import b\n", "cli/b.py": "import roost.cli.a\n"},
            "import circle: roost.cli.a -> roost.cli.b -> roost.cli.a",
        ),
        (every_file_is_used, {"cli/a.py": DOC}, "nothing imports this file"),
    ],
)
def test_a_rule_notices_its_breach(rule: Callable[[House], Iterator[Breach]], files: dict[str, str], said: str) -> None:
    house = [Module(path, text) for path, text in files.items()]
    breaches = list(rule(house))
    assert len(breaches) == 1
    assert said in breaches[0][2]


def test_a_house_in_order_is_left_in_peace() -> None:
    files = {
        "placement/rules/claims.py": DOC + "import numpy\nfrom roost.placement.model import A\n",
        "placement/model.py": DOC + "from msgspec import Struct\nclass A(Struct):\n    " + DOC,
        "placement/store/claims.py": DOC + 'F = """\n-- placement.f\nSELECT 1 FROM x\n"""\n',
        "placement/service/claims.py": DOC
        + "from roost.placement.rules import claims\nfrom roost.placement.store import claims\nx = d.transaction()\n",
        "cli/entry.py": DOC + "from roost.placement.service import claims\nprint('SELECT 1 FROM x')\n",
    }
    house = [Module(path, text) for path, text in files.items()]
    assert [breach for rule in RULES for breach in rule(house)] == []
