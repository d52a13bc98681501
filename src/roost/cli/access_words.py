"""What `--auth` and `--policy` may be; access.py says what that means, and takes longer to import."""

from collections.abc import Mapping
from pathlib import Path

from roost.platform.errors import BadRequest

AUTHS = ("none", "noauth2", "keystone")
PRESETS: Mapping[str, bool] = {
    "default": False,
    "legacy-rbac": False,
    "secure-rbac": True,
    "open": False,
    "cors": False,
}
"""What --policy takes besides a file -> enforce_new_defaults. `open` and `cors` have a say of their own below."""


def check_policy_word(word: str) -> str:
    """A name of PRESETS as it is, a file as its absolute path. Raises BadRequest for neither."""
    if word in PRESETS:
        return word
    file = Path(word)
    if not file.is_file():
        raise BadRequest(f"no file {word}: expected {', '.join(PRESETS)}, or a policy file")
    return str(file.absolute())
