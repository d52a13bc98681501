"""Requests to the Placement API, good, bad and absurd, made up from its own operations by a seeded random.

A request starts as its operation's schemas have it, with names and generations that exist, so that many get through to
the ledger; then anything in it may be exchanged for what nobody should send.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any
from urllib.parse import quote

from tests.placement.populated import AGGREGATE, CLASS, NOTHING, PROJECT, TRAIT, UNUSED_CLASS, UNUSED_TRAIT, USER
from tests.platform.malformed import BAD_BODIES, BAD_QUERY_BYTES, BAD_SEGMENTS, BAD_TEXT, METHODS, Pairs, Spoiler

from roost.platform.http import Version
from roost.platform.operations import Operation, Operations, Versions

HIGHEST = (1, 39)


@dataclass(frozen=True)
class Sent:
    """A request as it goes over the wire. version: the microversion that it asks for, None for one that is not."""

    path: str
    method: str
    target: bytes
    headers: Sequence[tuple[bytes, bytes]]
    body: Sequence[bytes]
    version: Version | None


@dataclass
class Known:
    """What exists at the moment: UUID -> generation."""

    providers: dict[str, int] = field(default_factory=dict)
    consumers: dict[str, int] = field(default_factory=dict)


BAD_QUERIES = [*BAD_QUERY_BYTES, b"resources", b"resources=%FF:1", b"resources%00=VCPU:1"]
VERSION_HEADERS = [
    b"placement latest", b"placement 1.40", b"placement 2.0", b"placement 0.9", b"placement", b"placement 1",
    b"placement 1.",
    b"placement .1", b"placement -1.0", b"placement 1.0.0", b"placement 1.1e1", b"placement \xff",
    b"placement 1." + b"9" * 5000,
    b"compute 2.1", b"compute 2.1, placement 1.39", b",,,", b"placement 1.10,placement 1.39", b"placement  1.39",
    b"", b"1.39",
    b"placement \xd9\xa1.\xd9\xa1", b"placement 1.39\x00", b"PLACEMENT 1.39",
]  # fmt: skip
CALLERS: list[list[tuple[bytes, bytes]]] = [
    [(b"x-auth-token", b"admin"), (b"x-roles", b"admin,service")],
    [], [(b"x-auth-token", b"")], [(b"x-auth-token", b":")], [(b"x-auth-token", b"\xff:\xff")],
    [(b"x-auth-token", b"user:" + PROJECT.encode()), (b"x-roles", b"reader")],
    [(b"x-auth-token", b"admin"), (b"x-roles", b",\xff, ,ADMIN")], [(b"x-auth-token", b"a" * 8000)],
    [(b"x-auth-token", b"admin"), (b"openstack-system-scope", b"all")],
    [(b"x-auth-token", b"u"), (b"x-project-id", b"%(project_id)s"), (b"x-roles", b"reader,%s,rule:admin_api")],
]  # fmt: skip
"""Who asks; the first may do everything."""

QUERIES: Mapping[str, Sequence[str]] = {
    "resources": [
        "VCPU:1", f"VCPU:1,{CLASS}:1", "VCPU:1,IPV4_ADDRESS:1", f"{CLASS}:99", "NO_SUCH:1", f"VCPU:{2**63}",
    ],
    "required": [TRAIT, f"!{TRAIT}", f"in:{TRAIT},HW_CPU_X86_AVX2", "NO_SUCH", f"{TRAIT},!{TRAIT}", f"in:!{TRAIT}"],
    "member_of": [
        AGGREGATE, f"!{AGGREGATE}", f"in:{AGGREGATE},{NOTHING}", f"!in:{AGGREGATE}", f"{AGGREGATE},{NOTHING}",
    ],
    "in_tree": [NOTHING], "name": ["host1", "in:CUSTOM_FAST", "startswith:CUSTOM_"], "uuid": [NOTHING],
    "associated": ["true", "0"],
    "limit": ["1", "0", "-1", "99999999999999999999999", "1.5"], "group_policy": ["none", "isolate", "x"],
    "root_required": [TRAIT, f"!{TRAIT}"], "same_subtree": ["_a,_b", "_a", "1"],
    "project_id": [PROJECT, "x"], "user_id": [USER], "consumer_type": ["all", "unknown", "INSTANCE", "all\n", "allx"],
    "microversion": ["1.1", "1.39", "1.99", "9.9"],
}  # fmt: skip
SUFFIXES = ["", "1", "2", "_a", "_b", "0", "x" * 64, "x" * 65, "é", "\n", "-"]


class Maker(Spoiler):
    """Makes requests up."""

    def __init__(self, random: Random, operations: Operations, known: Known) -> None:
        super().__init__(random)
        self.known = known
        self.operations = [
            (path, method, operation) for path, methods in operations.items() for method, operation in methods.items()
        ]

    def request(self) -> Sent:
        """One request; of each five, two have nothing in them that nobody would send."""
        self.benign = self.odds(0.4)
        path, method, operation = self.random.choice(self.operations)
        if method == "DELETE" and self.odds(0.7):  # or there would soon be nothing left
            path, method, operation = self.random.choice(self.operations)
        version, headers = self._version()
        headers += self.random.choice(CALLERS) if self.bad(0.05) else CALLERS[0]
        if self.bad(0.03):
            method = self.random.choice(METHODS)
        place = self._path(path)
        target = place + self._query(path, operation)
        body = self._body(place.decode(), operation, version or HIGHEST) if method in ("POST", "PUT", "PATCH") else b""
        if self.bad(0.02):
            body = self.random.choice(BAD_BODIES)
        more, chunks = self.envelope(body)
        return Sent(path, method, target, [*headers, *more], chunks, version)

    def _version(self) -> tuple[Version | None, list[tuple[bytes, bytes]]]:
        if self.bad(0.03):
            return None, [(b"openstack-api-version", self.random.choice(VERSION_HEADERS))]
        version = HIGHEST if self.odds(0.4) else (1, self.random.randint(0, 39))
        return version, [(b"openstack-api-version", b"placement %d.%d" % version)]

    def _uuid(self) -> str:
        known = [*self.known.providers] * 4 + [*self.known.consumers] + [AGGREGATE, NOTHING]
        if self.bad(0.15):
            return f"{self.random.getrandbits(32):08x}-0000-4000-8000-000000000000"
        found = self.random.choice(known)
        return self.random.choice([found.upper(), found.replace("-", "")]) if self.odds(0.05) else found

    # Paths and queries.

    def _path(self, path: str) -> bytes:
        def segment(match: re.Match[str]) -> str:
            if self.bad(0.12):
                return self.random.choice(BAD_SEGMENTS).decode()
            if match[1] == "uuid" and "allocations/{uuid}" in path:
                return self.random.choice([*self.known.consumers, self._uuid()])
            if match[1] == "uuid":
                return self.random.choice([*self.known.providers, NOTHING]) if self.odds(0.9) else self._uuid()
            if path.startswith("/traits"):
                return self.random.choice([TRAIT, UNUSED_TRAIT, "CUSTOM_NEW", "HW_CPU_X86_AVX2", "NO_SUCH"])
            return self._class()

        made = re.sub(r"{(\w+)}", segment, path).encode()
        return (
            made + self.random.choice([b"/", b"//", b"/x", b"%00", b"%0A", b"/%2e%2e", b";a=b"])
            if self.bad(0.02)
            else made
        )

    def _class(self) -> str:
        return self.random.choice(
            ["VCPU", "MEMORY_MB", "IPV4_ADDRESS", CLASS, CLASS, UNUSED_CLASS, "CUSTOM_NEW", "NO_SUCH"]
        )

    def _query(self, path: str, operation: Operation) -> bytes:
        if self.bad(0.02):
            return b"?" + self.random.choice(BAD_QUERIES)
        listing = path in ("/resource_providers", "/allocation_candidates")
        if not listing and operation.query is None:
            return b"?" + self._parameters(1) if self.bad(0.02) else b""
        if operation.query is not None and self.odds(0.5):
            names = list(operation.query.at(HIGHEST).get("properties", {}))
        else:
            names = [*QUERIES]
        pairs = [self._parameter(name) for name in self.random.choices(names, k=self.random.randint(0, 3))]
        if path == "/allocation_candidates" and self.odds(0.85):
            pairs.append(self._parameter("resources"))
        if path == "/usages" and self.odds(0.9):
            pairs.append(b"project_id=" + PROJECT.encode())
        return b"?" + b"&".join(pairs) if pairs else b""

    def _parameters(self, count: int) -> bytes:
        return b"&".join(self._parameter(name) for name in self.random.choices([*QUERIES], k=count))

    def _parameter(self, name: str) -> bytes:
        if self.bad(0.2):
            value = self.random.choice(BAD_TEXT)
        elif name in ("in_tree", "uuid", "member_of") and self.odds(0.5):
            value = self._uuid()
        else:
            value = self.random.choice(QUERIES.get(name, BAD_TEXT))
        if name in ("resources", "required", "member_of", "in_tree") and self.odds(0.3):
            name += self.random.choice(SUFFIXES)
        made = f"{quote(name)}={quote(value, safe=self.random.choice(['', ':,!']))}".encode()
        if self.bad(0.03):
            made += self.random.choice([b"%", b"%FF", b"%C3", b"\xff", b"&" + made])
        return made

    # Bodies.

    def _body(self, place: str, operation: Operation, version: Version) -> bytes:
        if self.bad(0.08):
            return self.random.choice(BAD_BODIES)
        versions = operation.body
        if versions is None:
            return json.dumps({"name": "CUSTOM_NEW"}).encode() if self.odds(0.3) else b""
        made = self.instance(self._schema(versions, version), "")
        if self.benign or self.odds(0.8):
            named = re.search("[0-9a-f-]{36}", place)
            _set_generations(made, self.known, named and named[0])
        return self.written(made)

    def _schema(self, versions: Versions, version: Version) -> Any:
        return versions.at((1, self.random.randint(0, 39)) if self.bad(0.05) else version)

    def key(self, pattern: str) -> str:
        """One that exists, or could."""
        if "fA-F" in pattern:
            return self._uuid()
        return self.random.choice(["_a", "1", "x"]) if "a-z" in pattern else self._class()

    def text(self, schema: Mapping[str, Any], name: str) -> str:
        """One that exists, or could, or nobody should send."""
        if schema.get("format") == "uuid":
            return self._uuid()
        if name in ("resource_class", "traits", "consumer_type") or "CUSTOM" in schema.get("pattern", ""):
            return self.random.choice([self._class(), TRAIT, "HW_CPU_X86_AVX2", "INSTANCE", "CUSTOM_NEW"])
        usual = {"project_id": [PROJECT], "user_id": [USER]}.get(
            name, ["host1", "x", f"n{self.random.getrandbits(16)}"]
        )
        return self.random.choice(BAD_TEXT if self.bad(0.1) else usual)


def _set_generations(value: Any, known: Known, uuid: str | None) -> None:
    """Say of every provider and consumer the generation that it has."""
    if not isinstance(value, Pairs):
        return
    for at, (key, inner) in enumerate(value.pairs):
        inside = key if key in known.providers or key in known.consumers else uuid
        if key == "resource_provider_generation" and uuid in known.providers:
            value.pairs[at] = (key, known.providers[uuid])
        elif key == "consumer_generation":
            value.pairs[at] = (key, known.consumers.get(uuid or ""))
        _set_generations(inner, known, inside)
