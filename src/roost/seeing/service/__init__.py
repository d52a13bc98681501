"""The operations of the operator's side: each asks the services, and the rules by which they place servers."""

from roost.seeing.service.context import Seeing

__all__ = ["Seeing"]
