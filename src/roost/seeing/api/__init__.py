"""The API of the operator's side, Roost's own: `/roost/v1`."""

from roost.seeing.api.routes import event_routes, operations, routes, rules

__all__ = ["event_routes", "operations", "routes", "rules"]
