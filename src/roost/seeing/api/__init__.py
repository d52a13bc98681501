"""The API of the operator's side, Roost's own: `/roost/v1`."""

from roost.seeing.api.routes import operations, routes, rules

__all__ = ["operations", "routes", "rules"]
