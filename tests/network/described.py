"""Whether an answer of the Network API is one that its OpenAPI document has."""

from typing import Any

from tests.described import Described

from roost.network.api import ABOUT, operations
from roost.platform.openapi import describe

NOTHING: Any = None

check_described = Described(lambda: describe(ABOUT, operations(NOTHING), server="/network")).check
