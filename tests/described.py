"""Whether an answer is one that an API's OpenAPI document has."""

import re
from collections.abc import Callable
from functools import cached_property
from typing import Any

import jsonschema


class Described:
    """A document, made when it is first needed."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make
        self._validators: dict[tuple[str, str, int], Any] = {}

    @cached_property
    def document(self) -> Any:
        return self._make()

    def check(self, method: str, path: str, status: int, answer: Any) -> None:
        """Fail unless the document has the answer; what it does not have at all is a 404 or a 405.

        answer: decoded; None: no body. path: as it was asked for.
        """
        template = self._template(path)
        if template is None or method.lower() not in self.document["paths"][template]:
            assert status in (404, 405), (method, path, status)
            return
        key = (template, method, status)
        if key not in self._validators:
            self._validators[key] = self._validator(*key)
        if self._validators[key] is None:
            assert answer is None, (method, path, status, answer)
        else:
            self._validators[key].validate(answer)

    def _validator(self, path: str, method: str, status: int) -> Any:
        """None where the answer has no body."""
        responses = self.document["paths"][path][method.lower()]["responses"]
        assert str(status) in responses, f"{method} {path}: {status} is none of {sorted(responses)}"
        response = responses[str(status)]
        if "$ref" in response:
            response = self.document["components"]["responses"][response["$ref"].rsplit("/", 1)[1]]
        if "content" not in response:
            return None
        schema = {**response["content"]["application/json"]["schema"], "components": self.document["components"]}
        return jsonschema.Draft202012Validator(schema)

    def _template(self, path: str) -> str | None:
        """The path as the document has it; where two match, the one with fewer parameters."""
        found = [
            template
            for template in self.document["paths"]
            if re.fullmatch(re.sub(r"\\{\w+\\}|{\w+}", "[^/]+", template), path, re.DOTALL)
        ]
        return min(found, key=lambda template: template.count("{"), default=None)
