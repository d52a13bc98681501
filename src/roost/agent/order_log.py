"""What an agent logs of its orders and guests: each line with the request that it follows from."""

from collections.abc import Sequence

import structlog

from roost.agent.drivers import LaunchFailed
from roost.seams.agent import GuestOrder, GuestReport

log = structlog.get_logger()


def bind_request(order: GuestOrder) -> None:
    """Have the lines of this task name the order's request, by both of its ids."""
    ids = {"request_id": order.request_id, "global_request_id": order.global_request_id}
    structlog.contextvars.bind_contextvars(**{name: value for name, value in ids.items() if value})


def log_failure(text: str, order: GuestOrder, error: Exception) -> None:
    """Log why an order is not carried out: the driver's reason under this text, or what it did not expect."""
    if isinstance(error, LaunchFailed):
        log.warning(text, server_id=order.server_id, host=order.host, reason=str(error))
    else:
        log.exception("the driver failed", server_id=order.server_id, host=order.host)


def log_own_changes(reports: Sequence[GuestReport]) -> None:
    """Log what guests did by themselves."""
    for report in reports:
        what = report.power_state or report.state
        log.warning("a guest changed by itself", server_id=report.server_id, host=report.host, power_state=what)
