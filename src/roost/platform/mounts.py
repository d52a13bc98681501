"""Where an API is mounted: below a prefix of the one listener, at the bare prefix too."""

import re
from collections.abc import Sequence

from starlette.routing import Match, Mount, Route
from starlette.types import Scope


def whole(path_regex: re.Pattern[str]) -> re.Pattern[str]:
    """Return Starlette's pattern of a path, in which a decoded line feed is a character and not the end."""
    return re.compile(path_regex.pattern.removesuffix("$") + r"\Z", re.DOTALL)


class _ApiMount(Mount):
    """Answers at the bare prefix too: clients ask for an API's versions at its address without a final slash."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        if scope["type"] != "http" or scope["path"] != scope.get("root_path", "") + self.path:
            return super().matches(scope)
        path = f"{scope['path']}/"
        match, child_scope = super().matches({**scope, "path": path})
        return match, {**child_scope, "path": path}


def mount(prefix: str, routes: Sequence[Route]) -> Mount:
    """Return an API's routes under a prefix of the one listener."""
    mounted = _ApiMount(prefix, routes=list(routes))
    mounted.path_regex = whole(mounted.path_regex)
    return mounted
