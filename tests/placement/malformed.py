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

from roost.placement.api.protocol import Operation, Operations, Versions
from roost.platform.http import Version

HIGHEST = (1, 39)


@dataclass(frozen=True)
class Raw:
    """Text that stands in a JSON document as it is."""

    text: str


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


BAD_TEXT = [
    "", " ", "\0", "a\0b", "\n", "VCPU\n", "CUSTOM_A\n", "CUSTOM_", "CUSTOM_É", "custom_a", "é" * 300, "A" * 256,
    "A" * 70_000,
    "null", "-1", "0", "1e400", "NaN", "٣", "１", "\u2028", "\U0001f600", "'; DROP TABLE provider; --", "%00", "../..",
    "{uuid}", "in:", "!", "!in:", ":", ",", ",,", "VCPU:", "VCPU:1:1", "in:,", "\x7f", "\ufffe", "\x85", "a" * 36,
    "-" * 36,
    "0" * 32, "{" + "0" * 36 + "}", "00000000-0000-4000-8000-00000000000٣", "00000000-0000-4000-8000-000000000001\n",
    "00000000000040008000000000000001", "urn:uuid:00000000-0000-4000-8000-000000000001",
]  # fmt: skip
BAD_VALUES: list[Any] = [
    None, True, False, 0, -1, 1.0, 1.5, -0.0, 2**31 - 1, 2**31, 2**53 + 1, 2**63 - 1, 2**63, -(2**63) - 1, 2**64,
    10**400,
    [], {}, [[]], [None], {"": None}, 3.5e38, 1e308, 5e-324, 0.1, 1e-9,
    *map(Raw, (
        "NaN", "Infinity", "-Infinity", "1e400", "-1e400", "-0", "-0.0", "1E2", "1e2", "0.0e0", "01", "+1", "0x10",
        "1.",
        '"\\ud800"', '"\\udfff\\ud800"', '"\\u0000"', '"a\\u0000b"', '"\\u00e9"', '"\\x"', '"', "'a'", "nul",
        "undefined",
        "/**/1", "[" * 300 + "]" * 300, '{"a":' * 300 + "1" + "}" * 300, "[" * 100_000, '{"a":' * 50_000, "9" * 5000,
        "1" + "0" * 400 + ".5", '"' + "x" * 100_000 + '"', "[" + "0," * 5000 + "0]",
    )),
]  # fmt: skip
BAD_BODIES = [
    b"", b" ", b"\0", b"\xff\xfe", b"\xef\xbb\xbf{}", b"{", b"}", b"[]", b"null", b"1", b'"a"', b"{}{}", b'{"a":1,}',
    b"{,}",
    b'{"name":"\xff"}', b'{"name":"\xed\xa0\x80"}', b'{"name":"\xc0\x80"}', b'{"\xff":1}', '{"é":1}'.encode("utf-16"),
    b'{"name":"a","name":"b"}', b"[" * 200_000, b'{"a":' * 100_000, b"[" * 900 + b"]" * 900,
    b'{"a":[' * 450 + b"]}" * 450,
    b"-", b"NaN", b"1e999999999", b"9" * 100_000, b"[" + b"1," * 100_000 + b"1]", b"\x00" * 1000, b"%7B%7D", b"a=b&c=d",
    b'{"' + b"k" * 100_000 + b'":1}', b"{" + b",".join(b'"k%d":1' % n for n in range(3000)) + b"}",
]  # fmt: skip
BAD_SEGMENTS = [
    b"%00", b"%0A", b"%0D%0A", b"a%00b", b"%FF", b"%C3%28", b"%ED%A0%80", b"%", b"%2", b"%zz", b"%2F", b"%2e%2e",
    b"..", b".",
    b"%20", b"+", b"a;b", b"{uuid}", b"%F0%9F%98%80", b"%E2%80%A8", b"x" * 8000, b"%41" * 3000, b"CUSTOM_A%0A",
    b"VCPU%0A",
    b"CUSTOM_%C3%89", b"CUSTOM_" + b"A" * 248, b"CUSTOM_" + b"A" * 249, b"%D9%A3", b"-", b"nul",
    b"00000000000040008000000000000005",
    b"00000000-0000-4000-8000-000000000005%0A", b"00000000-0000-4000-8000-00000000000%D9%A3", b"1" * 40,
]  # fmt: skip
BAD_QUERY_BYTES = [
    b"%", b"%zz", b"%FF", b"%ED%A0%80", b"%00", b"&&&", b"=", b"a", b"a=b=c", b";", b"resources", b"resources=%FF:1",
    b"\xff",
    b"limit=%D9%A3", b"x" * 30_000, b"&".join([b"member_of=x"] * 2000), b"name=%C3%28", b"%00=%00",
    b"resources%00=VCPU:1",
]  # fmt: skip
MEDIA_TYPES = [
    b"application/json; charset=utf-8", b"application/json;charset=utf-16", b"APPLICATION/JSON", b"text/plain", b"",
    b";", b"*/*",
    b"application/jsonx", b"multipart/form-data; boundary=x", b"application/x-www-form-urlencoded", b"\xff",
    b"a" * 5000,
]  # fmt: skip
ACCEPTS = [
    b"*/*", b"application/json", b"application/*", b"text/html", b"text/plain",
    b"text/html;q=0.1, application/json;q=0", b"",
    b"\xff\xfe", b"a" * 5000, b";q=x", b",,,", b"image/png",
]  # fmt: skip
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

MORE_HEADERS = [
    (b"X-Roles", b"admin,\xff,,"), (b"X-Auth-Token", b"\xff:::"), (b"X-Project-Id", b"a" * 5000),
    (b"Content-Length", b"abc"),
    (b"Content-Length", b"-1"), (b"X-OpenStack-Request-ID", b"\xff" * 300), (b"X-OpenStack-Request-ID", b"req-\xe9"),
    (b"Host", b"\xff[::"), (b"Host", b"[::1"), (b"Host", b"a:b:c"), (b"Host", b""), (b"X-Forwarded-Proto", b"\xff"),
    (b"If-Match", b"*"), (b"Range", b"bytes=9-1"), (b"Origin", b"null"), (b"Transfer-Encoding", b"chunked"),
    (b"Cookie", b"\x80=;"),
    (b"Content-Encoding", b"gzip"), (b"Expect", b"100-continue"), (b"X-HTTP-Method-Override", b"DELETE"),
]  # fmt: skip
METHODS = ["GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "get", "FOO", ""]
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


class Maker:
    """Makes requests up."""

    def __init__(self, random: Random, operations: Operations, known: Known) -> None:
        self.random = random
        self.known = known
        self.benign = False
        self.operations = [
            (path, method, operation) for path, methods in operations.items() for method, operation in methods.items()
        ]

    def request(self) -> Sent:
        """One request; of each five, two have nothing in them that nobody would send."""
        self.benign = self._odds(0.4)
        path, method, operation = self.random.choice(self.operations)
        if method == "DELETE" and self._odds(0.7):  # or there would soon be nothing left
            path, method, operation = self.random.choice(self.operations)
        version, headers = self._version()
        headers += self.random.choice(CALLERS) if self._bad(0.05) else CALLERS[0]
        if self._bad(0.03):
            method = self.random.choice(METHODS)
        place = self._path(path)
        target = place + self._query(path, operation)
        body = self._body(place.decode(), operation, version or HIGHEST) if method in ("POST", "PUT", "PATCH") else b""
        if self._bad(0.02):
            body = self.random.choice(BAD_BODIES)
        if body or self._bad(0.02):
            headers += [(b"content-length", b"%d" % len(body))]
            given = self.random.choice(MEDIA_TYPES) if self._bad(0.03) else b"application/json"
            headers += [(b"content-type", given)] * (0 if self._bad(0.01) else 1)
        if self._bad(0.1):
            headers.append((b"accept", self.random.choice(ACCEPTS)))
        if self._bad(0.1):
            headers.append(self.random.choice(MORE_HEADERS))
        half = self.random.randint(0, len(body))
        chunks = [body] if self._odds(0.9) else [body[:half], b"", body[half:]]
        return Sent(path, method, target, headers, chunks, version)

    def _odds(self, probability: float) -> bool:
        return self.random.random() < probability

    def _bad(self, probability: float) -> bool:
        return not self.benign and self._odds(probability)

    def _version(self) -> tuple[Version | None, list[tuple[bytes, bytes]]]:
        if self._bad(0.03):
            return None, [(b"openstack-api-version", self.random.choice(VERSION_HEADERS))]
        version = HIGHEST if self._odds(0.4) else (1, self.random.randint(0, 39))
        return version, [(b"openstack-api-version", b"placement %d.%d" % version)]

    def _uuid(self) -> str:
        known = [*self.known.providers] * 4 + [*self.known.consumers] + [AGGREGATE, NOTHING]
        if self._bad(0.15):
            return f"{self.random.getrandbits(32):08x}-0000-4000-8000-000000000000"
        found = self.random.choice(known)
        return self.random.choice([found.upper(), found.replace("-", "")]) if self._odds(0.05) else found

    # Paths and queries.

    def _path(self, path: str) -> bytes:
        def segment(match: re.Match[str]) -> str:
            if self._bad(0.12):
                return self.random.choice(BAD_SEGMENTS).decode()
            if match[1] == "uuid" and "allocations/{uuid}" in path:
                return self.random.choice([*self.known.consumers, self._uuid()])
            if match[1] == "uuid":
                return self.random.choice([*self.known.providers, NOTHING]) if self._odds(0.9) else self._uuid()
            if path.startswith("/traits"):
                return self.random.choice([TRAIT, UNUSED_TRAIT, "CUSTOM_NEW", "HW_CPU_X86_AVX2", "NO_SUCH"])
            return self._class()

        made = re.sub(r"{(\w+)}", segment, path).encode()
        return (
            made + self.random.choice([b"/", b"//", b"/x", b"%00", b"%0A", b"/%2e%2e", b";a=b"])
            if self._bad(0.02)
            else made
        )

    def _class(self) -> str:
        return self.random.choice(
            ["VCPU", "MEMORY_MB", "IPV4_ADDRESS", CLASS, CLASS, UNUSED_CLASS, "CUSTOM_NEW", "NO_SUCH"]
        )

    def _query(self, path: str, operation: Operation) -> bytes:
        if self._bad(0.02):
            return b"?" + self.random.choice(BAD_QUERY_BYTES)
        listing = path in ("/resource_providers", "/allocation_candidates")
        if not listing and operation.query is None:
            return b"?" + self._parameters(1) if self._bad(0.02) else b""
        if operation.query is not None and self._odds(0.5):
            names = list(operation.query.at(HIGHEST).get("properties", {}))
        else:
            names = [*QUERIES]
        pairs = [self._parameter(name) for name in self.random.choices(names, k=self.random.randint(0, 3))]
        if path == "/allocation_candidates" and self._odds(0.85):
            pairs.append(self._parameter("resources"))
        if path == "/usages" and self._odds(0.9):
            pairs.append(b"project_id=" + PROJECT.encode())
        return b"?" + b"&".join(pairs) if pairs else b""

    def _parameters(self, count: int) -> bytes:
        return b"&".join(self._parameter(name) for name in self.random.choices([*QUERIES], k=count))

    def _parameter(self, name: str) -> bytes:
        if self._bad(0.2):
            value = self.random.choice(BAD_TEXT)
        elif name in ("in_tree", "uuid", "member_of") and self._odds(0.5):
            value = self._uuid()
        else:
            value = self.random.choice(QUERIES.get(name, BAD_TEXT))
        if name in ("resources", "required", "member_of", "in_tree") and self._odds(0.3):
            name += self.random.choice(SUFFIXES)
        made = f"{quote(name)}={quote(value, safe=self.random.choice(['', ':,!']))}".encode()
        if self._bad(0.03):
            made += self.random.choice([b"%", b"%FF", b"%C3", b"\xff", b"&" + made])
        return made

    # Bodies.

    def _body(self, place: str, operation: Operation, version: Version) -> bytes:
        if self._bad(0.08):
            return self.random.choice(BAD_BODIES)
        versions = operation.body
        if versions is None:
            return json.dumps({"name": "CUSTOM_NEW"}).encode() if self._odds(0.3) else b""
        made = self._instance(self._schema(versions, version), "")
        if self.benign or self._odds(0.8):
            named = re.search("[0-9a-f-]{36}", place)
            _set_generations(made, self.known, named and named[0])
        while self._bad(0.3):
            made = self._broken(made)
        return _write(made).encode("utf-8", "surrogatepass")

    def _schema(self, versions: Versions, version: Version) -> Any:
        return versions.at((1, self.random.randint(0, 39)) if self._bad(0.05) else version)

    def _instance(self, schema: Mapping[str, Any], name: str) -> Any:
        """A value as the schema has it; objects are lists of pairs, so that a key can come twice."""
        if "anyOf" in schema:
            return self._instance(self.random.choice(schema["anyOf"]), name)
        kind = schema.get("type")
        if isinstance(kind, list):
            kind = self.random.choice(kind)
        if kind == "object":
            return Pairs(self._members(schema))
        if kind == "array":
            count = self.random.randint(schema.get("minItems", 0), 3)
            return [self._instance(schema["items"], name) for _ in range(count)]
        if kind == "integer":
            lowest, highest = schema.get("minimum", -1), schema.get("maximum", 2**31)
            usual = min(max(self.random.randint(0, 9), lowest), highest)
            return self.random.choice([lowest, highest, 2**63, float(usual)]) if self._bad(0.1) else usual
        if kind == "number":
            return self.random.choice([1.0, 1, 0.5, 16.0, 0, -1.0, 1e-40, 1e20, 3.4e38]) if self._odds(0.3) else 1.0
        return None if kind == "null" else self._text(schema, name)

    def _members(self, schema: Mapping[str, Any]) -> list[tuple[str, Any]]:
        pairs = [
            (key, self._instance(value, key))
            for key, value in schema.get("properties", {}).items()
            if key in schema.get("required", ()) or self._odds(0.5)
        ]
        for pattern, value in schema.get("patternProperties", {}).items():
            count = self.random.randint(schema.get("minProperties", 0), 2)
            pairs += [(self._key(pattern), self._instance(value, "")) for _ in range(count)]
        self.random.shuffle(pairs)
        return pairs

    def _key(self, pattern: str) -> str:
        if "fA-F" in pattern:
            return self._uuid()
        return self.random.choice(["_a", "1", "x"]) if "a-z" in pattern else self._class()

    def _text(self, schema: Mapping[str, Any], name: str) -> str:
        if schema.get("format") == "uuid":
            return self._uuid()
        if name in ("resource_class", "traits", "consumer_type") or "CUSTOM" in schema.get("pattern", ""):
            return self.random.choice([self._class(), TRAIT, "HW_CPU_X86_AVX2", "INSTANCE", "CUSTOM_NEW"])
        usual = {"project_id": [PROJECT], "user_id": [USER]}.get(
            name, ["host1", "x", f"n{self.random.getrandbits(16)}"]
        )
        return self.random.choice(BAD_TEXT if self._bad(0.1) else usual)

    def _broken(self, value: Any) -> Any:
        """The value with one thing in it exchanged, left out, or said twice."""
        if isinstance(value, Pairs) and value.pairs and self._bad(0.85):
            pairs = list(value.pairs)
            at = self.random.randrange(len(pairs))
            key, inner = pairs[at]
            choice = self.random.randrange(8)
            if choice == 0:
                del pairs[at]
            elif choice == 1:
                pairs.append((key, self._broken(inner)))
            elif choice == 2:
                pairs[at] = (self.random.choice(BAD_TEXT), inner)
            else:
                pairs[at] = (key, self._broken(inner))
            return Pairs(pairs)
        if isinstance(value, list) and value and self._bad(0.7):
            at = self.random.randrange(len(value))
            return [*value[:at], self._broken(value[at]), *value[at + self.random.randint(0, 1) :]]
        return self.random.choice(BAD_TEXT if self._bad(0.3) else BAD_VALUES)


@dataclass(frozen=True)
class Pairs:
    """An object; a key may come twice."""

    pairs: list[tuple[str, Any]]


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


def _write(value: Any) -> str:
    if isinstance(value, Raw):
        return value.text
    if isinstance(value, Pairs):
        return "{" + ",".join(f"{json.dumps(key)}:{_write(inner)}" for key, inner in value.pairs) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_write, value)) + "]"
    if isinstance(value, int) and not isinstance(value, bool) and value >= 10**300:
        return "1" + "0" * 400
    return json.dumps(value, ensure_ascii=False)
