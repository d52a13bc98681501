"""What this process counts of itself, for `/metrics` (telemetry.py)."""

import functools

from prometheus_client import Counter, Histogram

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)

OPERATION_SECONDS = Histogram(
    "roost_operation_seconds",
    "Requests by operation and status, and how long they took until their answer was ready.",
    ("api", "method", "path", "status"),
    buckets=SECONDS,
)
"""api: where the API is mounted. path: as the API declares it, so that there are as many as operations."""

NO_OPERATION = "-"
"""The method and path of requests that reached no operation, and their API where it is not known."""

NOTIFICATIONS = Counter(
    "roost_notifications_total",
    "Notifications by destination and what became of them: delivered, refused (tried again), parked, dropped.",
    ("destination", "outcome"),
)

TOKENS = Counter(
    "roost_keystone_tokens_total",
    "Tokens of callers, by what is known of them: cached, or asked of Keystone: valid, invalid, unavailable.",
    ("result",),
)


def observe_operation(api: str, method: str, path: str, status: int, seconds: float) -> None:
    """Count one request."""
    _seconds_of(api, method, path, status).observe(seconds)


def observe_unserved(status: int, seconds: float, *, api: str = NO_OPERATION) -> None:
    """Count one request that reached no operation: without a caller, or to where there is none."""
    observe_operation(api, NO_OPERATION, NO_OPERATION, status, seconds)


@functools.cache
def _seconds_of(api: str, method: str, path: str, status: int) -> Histogram:
    return OPERATION_SECONDS.labels(api or "/", method, path, str(status))
