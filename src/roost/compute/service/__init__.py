"""The operations of the compute service: one function, one transaction."""

from roost.compute.service.context import DEFAULT_PROJECT, DEFAULT_USER, Compute

__all__ = ["DEFAULT_PROJECT", "DEFAULT_USER", "Compute"]
