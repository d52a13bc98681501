"""The Compute API, microversions 2.1 to 2.96: decode, call one service function, encode."""

from roost.compute.api.routes import operations, routes, rules

__all__ = ["operations", "routes", "rules"]
