"""How many tags a server has, and what a tag may be. No I/O.

Source: Nova, objects/instance.py, MAX_TAG_COUNT; api/validation/parameter_types.py, tag.
"""

import re

TAGS_MAX = 50
TAG_LENGTH_MAX = 60
TAG_PATTERN = r"^[^,/]*$"


def find_tag_problem(tag: str) -> str | None:
    """Return why a server cannot have the tag, or None."""
    if re.fullmatch(TAG_PATTERN, tag, re.DOTALL) and 1 <= len(tag) <= TAG_LENGTH_MAX:
        return None
    return (
        f"Tag '{tag}' is invalid. It must be a non empty string without characters '/' and ',', "
        f"of {TAG_LENGTH_MAX} at most."
    )
