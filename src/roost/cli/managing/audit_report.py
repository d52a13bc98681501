"""What `audit` says: a table for people, JSON for programs, and its exit status."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import msgspec
from rich.console import Console
from rich.text import Text

from roost.cli.plurals import many
from roost.compute.service.audit import AUDIT as COMPUTE_AUDIT
from roost.network.service.audit import AUDIT as NETWORK_AUDIT
from roost.placement.service.audit import AUDIT as LEDGER_AUDIT
from roost.platform.drift import Drift, Kind, RepairedBy
from roost.seams.neutron import NeutronUnavailable

CLEAN, DRIFT, REPAIRED, UNREAD = 0, 3, 4, 5
EXAMPLES_SHOWN = 3
KINDS = (*LEDGER_AUDIT.kinds, *NETWORK_AUDIT.kinds, *COMPUTE_AUDIT.kinds)
BY = {RepairedBy.ITSELF: "the reconciler, or --repair", RepairedBy.ASKED: "--repair", RepairedBy.PERSON: "you"}


def report_json(
    drifts: Sequence[Drift],
    repaired: Sequence[Drift] | None,
    remaining: Sequence[Drift] | None,
    gaps: Sequence[str] = (),
    promising: tuple[int, int] = (0, 0),
) -> bytes:
    """Return every drift, every gap, and how many hosts of how many promise to fence their guests.

    repaired, remaining: None where nothing was to be repaired.
    """
    return msgspec.json.encode(
        {
            "clean": not (drifts if remaining is None else remaining),
            "counts": {kind.code: count for kind, count in _by_kind(drifts).items()},
            "found": [drift_document(drift) for drift in drifts],
            "repaired": None if repaired is None else [drift_document(drift) for drift in repaired],
            "left": None if remaining is None else [drift_document(drift) for drift in remaining],
            "gaps": gaps,
            "hosts_promising": promising[0],
            "hosts": promising[1],
        }
    )


def print_json(console: Console, report: bytes) -> None:
    """Print it as it is, whatever the width."""
    console.file.write(report.decode() + "\n")


def print_unread(console: Console, error: NeutronUnavailable, *, as_json: bool) -> None:
    """Print why Neutron could not be asked."""
    if as_json:
        print_json(console, msgspec.json.encode({"error": str(error)}))
    else:
        console.print(str(error), soft_wrap=True)


def print_drifts(console: Console, drifts: Sequence[Drift], *, repair: bool) -> None:
    """Print for people: each kind of drift with its count, who repairs it and how, and the first of its examples."""
    if not drifts:
        console.print("Nothing has drifted.")
        return
    for kind, count in _by_kind(drifts).items():
        if not count:
            continue
        examples = [_example(drift) for drift in drifts if drift.kind is kind][:EXAMPLES_SHOWN]
        more = [f"... and {count - len(examples):,} more"] if count > len(examples) else []
        console.print(Text(f"{count:,} × {kind.sentence} ({kind.code})", style="bold"), soft_wrap=True)
        for line in (*examples, *more, f"repair, by {BY[kind.repaired_by]}: {kind.repair}"):
            console.print(Text(f"    {line}"), soft_wrap=True)
    console.print(Text(f"{many(len(drifts), 'drift')} found." + ("" if repair else " Nothing was changed.")))


def print_gaps(console: Console, gaps: Sequence[str]) -> None:
    """Print what nobody can use as networks and hosts are laid out; it is no drift."""
    if gaps:
        console.print(Text("To look at, though it is no drift:", style="bold"))
        for gap in gaps:
            console.print(Text(f"    {gap}"), soft_wrap=True)


def print_promises(console: Console, promising: int, hosts: int) -> None:
    """Print how many hosts promise to fence their guests, where any does."""
    if promising:
        console.print(
            Text(f"{promising:,} of {many(hosts, 'host')} promise to fence their guests when they are silent.")
        )


def print_outcome(
    console: Console, drifts: Sequence[Drift], repaired: Sequence[Drift], remaining: Sequence[Drift]
) -> None:
    """Print what was repaired, how much of it is not among the `drifts` that were shown, and what remains."""
    shown = {(drift.kind, drift.key) for drift in drifts}
    later = sum((drift.kind, drift.key) not in shown for drift in repaired)
    hidden = f", {later:,} of them seen only when others had been repaired" if later else ""
    console.print(Text(f"{many(len(repaired), 'drift')} repaired{hidden}."))
    if remaining:
        console.print(Text("Left:", style="yellow"))
        print_drifts(console, remaining, repair=True)


def _by_kind(drifts: Sequence[Drift]) -> dict[Kind, int]:
    counts = Counter(drift.kind for drift in drifts)
    return {kind: counts[kind] for kind in KINDS}


def drift_document(drift: Drift) -> dict[str, Any]:
    """Return a drift as JSON has it."""
    kind = drift.kind
    return {
        "kind": kind.code,
        "what": kind.sentence,
        "key": drift.key,
        "name": drift.name,
        "says": drift.says,
        "repair": kind.repair,
        "repaired_by": kind.repaired_by.value,
    }


def _example(drift: Drift) -> str:
    name = f"{drift.name} ({drift.key})" if drift.name and drift.name != drift.key else drift.key
    return f"{name}: {drift.says}" if drift.says else name
