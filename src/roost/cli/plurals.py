"""How many of what, in words: `1 address`, `2 addresses`, `1,024 hosts`."""


def many(count: int, noun: str) -> str:
    """Return the count with its noun."""
    return f"{count:,} {plural(count, noun)}"


def plural(count: int, noun: str) -> str:
    """Return the noun as it stands behind this count."""
    if count == 1:
        return noun
    return f"{noun}es" if noun.endswith("s") else f"{noun}s"


def is_or_are(count: int) -> str:
    """Return the verb that goes with so many."""
    return "is" if count == 1 else "are"
