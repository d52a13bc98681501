"""Cross-origin requests: lets scripts of configured web pages (Horizon, say) use the APIs. Off without an origin.

Starlette's own middleware answers a preflight from an unknown origin with 400, and always allows some headers more
than were asked for. What is here answers as oslo.middleware does, which upstream's clients and tests know.
Source: oslo.middleware, cors; Fetch standard, CORS protocol; openstack-placement 16.0.0 for the defaults.
"""

from collections.abc import Mapping

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from roost.platform.settings import CorsSettings

SIMPLE_HEADERS = frozenset(
    {
        *("accept", "accept-language", "cache-control", "content-language"),
        *("content-type", "expires", "last-modified", "pragma"),
    }
)
"""Request headers that are always allowed."""


class Cors:
    """Outside of authentication, because a browser's preflight carries no token."""

    def __init__(self, app: ASGIApp, settings: CorsSettings) -> None:
        self.app = app
        self.settings = settings
        self.allowed_headers = SIMPLE_HEADERS | {header.lower() for header in settings.allow_headers}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer OPTIONS here, and mark the answers to other requests of allowed origins."""
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        headers = Headers(scope=scope)
        origin = self._allowed(headers.get("origin"))
        if scope["method"] == "OPTIONS":
            return await Response(b"", 200, headers=self._preflight(origin, headers))(scope, receive, send)
        if origin is None:
            return await self.app(scope, receive, send)

        async def marked(message: Message) -> None:
            if message["type"] == "http.response.start":
                answered = MutableHeaders(scope=message)
                answered.add_vary_header("Origin")
                for name, value in self._marks(origin).items():
                    answered[name] = value
            await send(message)

        await self.app(scope, receive, marked)

    def _allowed(self, origin: str | None) -> str | None:
        """Return the origin to name in the answer, None for one that is not let in."""
        if origin is None or origin in self.settings.allowed_origin:
            return origin
        return "*" if "*" in self.settings.allowed_origin else None

    def _marks(self, origin: str) -> dict[str, str]:
        marks = {"Access-Control-Allow-Origin": origin}
        if self.settings.allow_credentials:
            marks["Access-Control-Allow-Credentials"] = "true"
        if self.settings.expose_headers:
            marks["Access-Control-Expose-Headers"] = ",".join(self.settings.expose_headers)
        return marks

    def _preflight(self, origin: str | None, headers: Mapping[str, str]) -> dict[str, str]:
        """Return the headers of the answer: none unless origin, method and all headers are allowed."""
        method = headers.get("access-control-request-method")
        if origin is None or method not in self.settings.allow_methods:
            return {}
        words = [word.strip() for word in headers.get("access-control-request-headers", "").split(",")]
        headers_requested = [word for word in words if word]
        if any(word.lower() not in self.allowed_headers for word in headers_requested):
            return {}
        answer = {"Vary": "Origin", "Access-Control-Allow-Origin": origin, "Access-Control-Allow-Methods": method}
        if self.settings.allow_credentials:
            answer["Access-Control-Allow-Credentials"] = "true"
        if self.settings.max_age_s:
            answer["Access-Control-Max-Age"] = str(self.settings.max_age_s)
        if headers_requested:
            answer["Access-Control-Allow-Headers"] = ",".join(headers_requested)
        return answer
