"""What nobody should send to any HTTP API: values, texts, bytes and headers, and how a good request is spoiled by them.

A `Spoiler` makes values as JSON Schemas have them, then exchanges anything in them; whoever derives from it says which
texts and keys mean something to its API. Everything comes from one seeded random.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any


@dataclass(frozen=True)
class Raw:
    """Text that stands in a JSON document as it is."""

    text: str


@dataclass(frozen=True)
class Pairs:
    """An object; a key may come twice."""

    pairs: list[tuple[str, Any]]


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
    b"%", b"%zz", b"%FF", b"%ED%A0%80", b"%00", b"&&&", b"=", b"a", b"a=b=c", b";",
    b"\xff",
    b"limit=%D9%A3", b"x" * 30_000, b"&".join([b"member_of=x"] * 2000), b"name=%C3%28", b"%00=%00",
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


class Spoiler(ABC):
    """Makes values as schemas have them, and spoils them.

    components: the schemas that others refer to, by name. benign: this time, nothing is spoiled.
    """

    def __init__(self, random: Random, components: Mapping[str, Any] | None = None) -> None:
        self.random = random
        self.benign = False
        self._components = components or {}

    @abstractmethod
    def text(self, schema: Mapping[str, Any], name: str) -> str:
        """A text; name: of the attribute, "" where it has none."""

    @abstractmethod
    def key(self, pattern: str) -> str:
        """A key that a pattern allows."""

    def odds(self, probability: float) -> bool:
        """Whether something happens."""
        return self.random.random() < probability

    def bad(self, probability: float) -> bool:
        """Whether something that nobody should do happens."""
        return not self.benign and self.odds(probability)

    def optional(self, _name: str, _schema: Mapping[str, Any]) -> bool:
        """Whether an attribute that may be left out is there."""
        return self.odds(0.5)

    def envelope(self, body: bytes) -> tuple[list[tuple[bytes, bytes]], Sequence[bytes]]:
        """The headers that a body has, and perhaps some that no request should have; and the body in chunks."""
        headers: list[tuple[bytes, bytes]] = []
        if body or self.bad(0.02):
            headers += [(b"content-length", b"%d" % len(body))]
            given = self.random.choice(MEDIA_TYPES) if self.bad(0.03) else b"application/json"
            headers += [(b"content-type", given)] * (0 if self.bad(0.01) else 1)
        if self.bad(0.1):
            headers.append((b"accept", self.random.choice(ACCEPTS)))
        if self.bad(0.1):
            headers.append(self.random.choice(MORE_HEADERS))
        half = self.random.randint(0, len(body))
        return headers, [body] if self.odds(0.9) else [body[:half], b"", body[half:]]

    def written(self, value: Any) -> bytes:
        """A body, perhaps with things in it exchanged, left out, or said twice."""
        while self.bad(0.3):
            value = self._broken(value)
        return _write(value).encode("utf-8", "surrogatepass")

    def instance(self, schema: Mapping[str, Any], name: str) -> Any:
        """A value as the schema has it; objects are lists of pairs, so that a key can come twice."""
        if "$ref" in schema:
            return self.instance(self._components[schema["$ref"].rsplit("/", 1)[1]], name)
        if "anyOf" in schema:
            return self.instance(self.random.choice(schema["anyOf"]), name)
        if "enum" in schema:
            return self.random.choice(schema["enum"])
        kind = schema.get("type")
        if isinstance(kind, list):
            kind = self.random.choice(kind)
        if kind == "object":
            return Pairs(self._members(schema))
        if kind == "array":
            count = self.random.randint(schema.get("minItems", 0), min(3, schema.get("maxItems", 3)))
            return [self.instance(schema["items"], name) for _ in range(count)]
        if kind == "integer":
            lowest, highest = schema.get("minimum", -1), schema.get("maximum", 2**31)
            usual = min(max(self.random.randint(0, 9), lowest), highest)
            return self.random.choice([lowest, highest, 2**63, float(usual)]) if self.bad(0.1) else usual
        if kind == "boolean":
            return self.odds(0.5)
        if kind == "number":
            return self.random.choice([1.0, 1, 0.5, 16.0, 0, -1.0, 1e-40, 1e20, 3.4e38]) if self.odds(0.3) else 1.0
        if kind == "null":
            return None
        return self.text(schema, name) if kind == "string" or not self.bad(0.5) else self.random.choice(BAD_VALUES)

    def _members(self, schema: Mapping[str, Any]) -> list[tuple[str, Any]]:
        pairs = [
            (key, self.instance(value, key))
            for key, value in schema.get("properties", {}).items()
            if key in schema.get("required", ()) or self.optional(key, value)
        ]
        for pattern, value in schema.get("patternProperties", {}).items():
            count = self.random.randint(schema.get("minProperties", 0), 2)
            pairs += [(self.key(pattern), self.instance(value, "")) for _ in range(count)]
        self.random.shuffle(pairs)
        return pairs

    def _broken(self, value: Any) -> Any:
        """The value with one thing in it exchanged, left out, or said twice."""
        if isinstance(value, Pairs) and value.pairs and self.bad(0.85):
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
        if isinstance(value, list) and value and self.bad(0.7):
            at = self.random.randrange(len(value))
            return [*value[:at], self._broken(value[at]), *value[at + self.random.randint(0, 1) :]]
        return self.random.choice(BAD_TEXT if self.bad(0.3) else BAD_VALUES)


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
