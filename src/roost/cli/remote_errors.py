"""What another service's refusal says: one sentence of its body, whichever API's it is."""

from typing import Any

import msgspec

DETAIL_MAX = 300


def detail_of(answer: Any) -> str:
    """Return the sentence in an error's body on one line, without its last full stop. answer: bytes, or decoded."""
    if isinstance(answer, bytes):
        try:
            answer = msgspec.json.decode(answer)
        except (msgspec.DecodeError, UnicodeDecodeError):
            answer = answer.decode(errors="replace")
    return " ".join(_sentence(answer).split())[:DETAIL_MAX].rstrip(".")


def _sentence(answer: Any) -> str:
    if isinstance(answer, dict):
        if isinstance(answer.get("detail"), str):
            return str(answer["detail"])
        errors = answer.get("errors")
        if isinstance(errors, list) and errors and isinstance(errors[0], dict):
            return str(errors[0].get("detail", errors[0]))
        for inner in answer.values():
            if isinstance(inner, dict) and isinstance(inner.get("message"), str):
                return str(inner["message"])
    return str(answer)
