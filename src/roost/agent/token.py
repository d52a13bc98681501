"""Where an agent has its token from: a file, or the environment; never an argument, which `ps` would show."""

import re
from collections.abc import Mapping
from pathlib import Path

from roost.platform.errors import RoostError

VARIABLE = "ROOST_AGENT_TOKEN"
LOOKS_LIKE_ONE = r"[\x21-\x7e]{1,1024}"


class TokenUnusable(RoostError):
    """The agent's token cannot be read, or is none."""


class TokenRefused(RoostError):
    """The API refuses this agent's token."""


class TokenSource:
    """An agent's token, which may be replaced while the agent runs. file: comes before the environment."""

    def __init__(self, file: Path | None, environment: Mapping[str, str]) -> None:
        self._file = file
        self._environment = environment
        self.token = self._read()

    def reread(self) -> None:
        """Take over the file's new token; one that cannot be read now changes nothing."""
        try:
            self.token = self._read()
        except TokenUnusable:
            return

    def _read(self) -> str | None:
        """Return the token; None where there is to be none. Raises TokenUnusable."""
        where, token = VARIABLE, self._environment.get(VARIABLE)
        if self._file is not None:
            where = f"--token-file {self._file}"
            try:
                token = self._file.read_text()
            except (OSError, UnicodeDecodeError) as error:
                raise TokenUnusable(f"{where}: {getattr(error, 'strerror', None) or 'expected a token'}") from error
        if token is None:
            return None
        if not re.fullmatch(LOOKS_LIKE_ONE, token.strip()):
            raise TokenUnusable(f"{where}: expected one token, as `roost-manage agent-token create` prints it")
        return token.strip()
