"""What was expected of a value that a person wrote, in plain words."""

import re

import msgspec

WORDS = {
    "str": "text (in quotes, if it is a number)",
    "int": "a whole number",
    "array": "a list",
    "object": "keys with values",
    "null": "nothing",
    "bool": "true or false",
    "float": "a number",
    "str | null": "text or null",
    "int | null": "a whole number or null",
    "`array` of length >= 1": "a list with at least one member",
    "`str` of length >= 1": "a text that is not empty",
}
BOUNDS = {">=": "from {} on", "<=": "up to {}", ">": "above {}", "<": "below {}"}


def explain_mismatch(error: msgspec.ValidationError) -> str:
    """Return msgspec's refusal in the words of people who write YAML or TOML, without the place."""
    text = str(error).partition(" - at `")[0]
    for pattern, sentence in (
        (r"Expected `(.*)`, got `(.*)`", "expected {}, got {}"),
        (r"Expected (.*)", "expected {}"),
    ):
        if match := re.fullmatch(pattern, text):
            return sentence.format(*map(_in_plain_words, match.groups()))
    if match := re.fullmatch(r"Invalid enum value (.*)", text):
        return f"got {match[1]}, which is none of those known"
    return text


def find_mismatch(error: msgspec.ValidationError) -> str:
    """Return the place of msgspec's refusal below the value that was converted, "" for the value itself."""
    return str(error).partition(" - at `$")[2].rstrip("`").lstrip(".")


def _in_plain_words(kind: str) -> str:
    """Return one of msgspec's descriptions of a type, such as "`int` >= 1", in plain words."""
    if match := re.fullmatch(r"`(int|float)` (>=|<=|>|<) ([-0-9.e+]+)", kind):
        return f"{WORDS[match[1]]} {BOUNDS[match[2]].format(match[3].removesuffix('.0'))}"
    if match := re.fullmatch(r"`str` of length <= ([0-9]+)", kind):
        return f"a text of at most {match[1]} characters"
    return WORDS.get(kind, kind)
