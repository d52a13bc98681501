"""Decides which tags a network, segment, subnet or port has. Source: Network API, standard-attr-tag."""

from collections.abc import Sequence

from roost.network.errors import InvalidInput, TagNotFound

TAGS_MAX = 50
"""How many tags a resource may have."""
TAG_LENGTH_MAX = 255


def replaced(wanted: Sequence[str]) -> tuple[str, ...]:
    """Return exactly these tags, sorted. Raises InvalidInput for a double or malformed tag, and for too many."""
    if len(set(wanted)) < len(wanted):
        raise InvalidInput("tags: one comes more than once.")
    for tag in wanted:
        if not 0 < len(tag) <= TAG_LENGTH_MAX or "\x00" in tag:
            raise InvalidInput(f"A tag has 1 to {TAG_LENGTH_MAX} characters, and none of them NUL.")
    if len(wanted) > TAGS_MAX:
        raise InvalidInput(f"At most {TAGS_MAX} tags are kept, {len(wanted)} are too many.")
    return tuple(sorted(wanted))


def added(has: Sequence[str], new: Sequence[str]) -> tuple[str, ...]:
    """Return the tags of a resource and the new ones, sorted. Raises InvalidInput as `replaced` does."""
    return replaced([*has, *(tag for tag in replaced(new) if tag not in has)])


def removed(has: Sequence[str], tag: str) -> tuple[str, ...]:
    """Return the tags of a resource without this one. Raises TagNotFound."""
    if tag not in has:
        raise TagNotFound(f"Tag {tag} could not be found.")
    return tuple(item for item in has if item != tag)
