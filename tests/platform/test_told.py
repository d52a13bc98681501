"""What callers read of errors: addresses and other services' words are for operators alone."""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
import pytest
from starlette.requests import Request

import roost.cli.serving.cloud_wiring  # noqa: F401 - so that every error there is is known
from roost.clients.placement_http import PlacementRefusal, PlacementUnavailable
from roost.compute import errors as compute_errors
from roost.compute.api.errors import PROBLEMS as COMPUTE
from roost.network import errors as network_errors
from roost.network.api.errors import PROBLEMS as NETWORK
from roost.network.service.builds import MadeMeanwhile
from roost.network.service.releases import ReleasesPending
from roost.placement.api.errors import PROBLEMS as PLACEMENT
from roost.platform.errors import DatabaseAway, LockTimeout, RequestTimeout, RoostError, TransactionVictim
from roost.platform.http import Api, Problem
from roost.platform.request_log import NOTES_KEY
from roost.seams.image import ImageServiceUnavailable

SAID = "10.0.0.9:5432 said <h1>no</h1>"
OWN_WORDS: frozenset[type[RoostError]] = frozenset({
    RequestTimeout, compute_errors.NotReported, compute_errors.ActionUnsupported, network_errors.PortChanged,
    network_errors.PublicationPending, MadeMeanwhile, ReleasesPending,
})  # fmt: skip
"""Errors answered 5xx whose sentences Roost writes by itself."""


def kinds(kind: type[RoostError] = RoostError) -> Iterator[type[RoostError]]:
    yield kind
    for below in kind.__subclasses__():
        yield from kinds(below)


def answer(kind: type[RoostError], table: Mapping[type[Exception], Problem]) -> tuple[int, str, dict[str, Any]]:
    """Status, text and what the log's line has of an error that says SAID."""
    notes: dict[str, Any] = {}
    error = kind.__new__(kind, SAID)
    request = Request({"type": "http", "method": "GET", "path": "/", "headers": [], NOTES_KEY: notes})
    response = Api(problems=table).problem_response(error, request)
    return response.status_code, msgspec.json.decode(response.body)["detail"], notes


@pytest.mark.parametrize("table", [PLACEMENT, NETWORK, COMPUTE])
def test_of_what_is_not_the_callers_fault_the_details_are_in_the_log_alone(
    table: Mapping[type[Exception], Problem],
) -> None:
    told = set()
    for kind in set(kinds()) - OWN_WORDS:
        if kind.__str__ is RoostError.__str__:
            status, text, notes = answer(kind, table)
            assert notes["reason"] == SAID
            told |= {kind} if status >= 500 and SAID in text else set()
    assert told == set(), "is_confidential, or words of its own?"


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        (DatabaseAway, 503),
        (TransactionVictim, 503),
        (LockTimeout, 503),
        (PlacementUnavailable, 503),
        (PlacementRefusal, 400),
        (ImageServiceUnavailable, 503),
        (network_errors.AddressesWithheld, 503),
        (RoostError, 500),
    ],
)
def test_callers_read_the_sentence_of_the_kind(kind: type[RoostError], status: int) -> None:
    found, text, notes = answer(kind, COMPUTE)
    own = "Roost failed; its log has the details." if kind is RoostError else (kind.__doc__ or "").splitlines()[0]
    assert (found, text, notes["reason"]) == (status, own, SAID)
