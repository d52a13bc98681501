"""Whether an answer of the Network API is one that its OpenAPI document has."""

import re
from collections.abc import Callable
from functools import cache
from typing import Any

import jsonschema

from roost.network.api import operations
from roost.network.api.openapi import ABOUT
from roost.platform.openapi import describe

Check = Callable[[str, str, int, Any], None]
"""(method, path, status, decoded body or None); fails for an answer that is not described."""


@cache
def _document() -> Any:
    nothing: Any = None
    return describe(ABOUT, operations(nothing), server="/network")


@cache
def _validator(path: str, method: str, status: int) -> Any:
    """None where the answer has no body."""
    document = _document()
    responses = document["paths"][path][method.lower()]["responses"]
    assert str(status) in responses, f"{method} {path}: {status} is none of {sorted(responses)}"
    response = responses[str(status)]
    if "$ref" in response:
        response = document["components"]["responses"][response["$ref"].rsplit("/", 1)[1]]
    if "content" not in response:
        return None
    schema = {**response["content"]["application/json"]["schema"], "components": document["components"]}
    return jsonschema.Draft202012Validator(schema)


@cache
def _template(path: str) -> str | None:
    """The path as the document has it; where two match, the one with fewer parameters."""
    found = [
        template
        for template in _document()["paths"]
        if re.fullmatch(re.sub(r"\\{\w+\\}|{\w+}", "[^/]+", template), path, re.DOTALL)
    ]
    return min(found, key=lambda template: template.count("{"), default=None)


def check_described(method: str, path: str, status: int, answer: Any) -> None:
    """Fail unless the document has the answer; what it does not have at all is a 404 or a 405."""
    template = _template(path)
    if template is None or method.lower() not in _document()["paths"][template]:
        assert status in (404, 405), (method, path, status)
        return
    validator = _validator(template, method, status)
    if validator is None:
        assert answer is None, (method, path, status, answer)
    else:
        validator.validate(answer)
