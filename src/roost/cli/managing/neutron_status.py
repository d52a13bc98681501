"""`roost-manage status neutron`: whether servers of an existing OpenStack get hosts by the addresses of its Neutron.

Exit status 0: ready; 1: a warning; 2: a failure; 255: the check itself failed. Source: Nova, nova-status.
"""

from collections.abc import Iterable

from rich.console import Console

from roost.cli.managing.check_report import FAILURE, READY, WARNING, CheckResult, print_checks
from roost.cli.managing.ledger_target import LedgerTarget, open_existing
from roost.cli.plurals import many
from roost.cli.serving.neutron import make_neutron
from roost.cli.settings import read_settings
from roost.placement.service.ledger import Ledger, sync_standard_names
from roost.placement.service.neutron_status import NeutronStatus, look_at_neutron
from roost.platform.env import Env

POOL_SIZE = 4
SHOWN_MAX = 5
ROUND_LATE_S = 60.0
"""An older round is late, unless rounds are that far apart: then it is one that is older than two of them."""


async def neutron_status(target: LedgerTarget, console: Console, *, as_json: bool) -> int:
    """Make all checks and print them; return the exit status.

    Raises BadRequest for a configuration without Neutron, TargetRefused where there is no ledger of this version.
    """
    settings = read_settings(target.config)
    neutron = make_neutron(settings)
    try:
        async with open_existing(target, pool_size=POOL_SIZE, schemas=("placement",)) as database:
            ledger = Ledger(
                database, Env(), settings.placement, claim_grace_s=settings.neutron.claim_grace_s,
                neutron_zones=settings.neutron.zone_by_segment,
            )  # fmt: skip
            await sync_standard_names(ledger)
            status = await look_at_neutron(ledger, neutron)
    finally:
        await neutron.close()
    late_s = max(ROUND_LATE_S, 2 * settings.neutron.poll_s)
    checks = list_checks(status, implied_addresses=settings.placement.implied_addresses, late_s=late_s)
    return print_checks(console, checks, as_json=as_json)


def list_checks(status: NeutronStatus, *, implied_addresses: bool, late_s: float = ROUND_LATE_S) -> list[CheckResult]:
    """Return the checks, in the order in which a boot depends on them. late_s: how old the last round may be."""
    return [
        _rights(status),
        _own_count(status),
        _segments(status),
        _subnets(status),
        _networks(status),
        _hosts(status),
        _one_segment(status),
        _rounds(status, late_s),
        _differences(status),
        _claims(implied_addresses),
        _searches(status),
    ]


def _check(name: str, result: int, *sentences: str) -> CheckResult:
    return CheckResult(name=name, result=result, details=" ".join(sentences))


def _rights(status: NeutronStatus) -> CheckResult:
    if status.fault:
        return _check("Neutron and its rights", FAILURE, status.fault)
    return _check("Neutron and its rights", READY, f"Neutron shows {status.sight.user} all that Roost reads.")


def _own_count(status: NeutronStatus) -> CheckResult:
    if status.sight.may_count:
        return _check("Neutron's own count", READY, "Addresses are given back when Neutron counts them no more.")
    return _check(
        "Neutron's own count", WARNING,
        "Nothing is given back: the user may not read network-ip-availabilities (get_network_ip_availability).",
    )  # fmt: skip


def _segments(status: NeutronStatus) -> CheckResult:
    sight = status.sight
    if not sight.segments:
        return _check("segments", FAILURE, "Neutron shows no segment: there is no routed network, or no right to it.")
    if sight.segments_unpublished:
        return _check(
            "segments", FAILURE,
            f"Of {many(sight.segments, 'segment')} Neutron has not told Placement of",
            f"{_few(sight.segments_unpublished)}:",
            "nothing is admitted there. See in Neutron's log why its notifier failed, and make its subnet anew.",
        )  # fmt: skip
    return _check("segments", READY, f"All {many(sight.segments, 'segment')} that have IPv4 subnets have a provider.")


def _subnets(status: NeutronStatus) -> CheckResult:
    sight = status.sight
    says = [
        f"{many(sight.subnets_on_segments, 'IPv4 subnet')} on segments are counted,",
        f"{many(sight.subnets_elsewhere, 'other')} on none are left alone.",
    ]
    left_out = [f"{uuid} ({why})" for uuid, why in sight.subnets_of_others.items()]
    if left_out:
        says.append(f"No room for servers: {_few(left_out)}.")
    return _check("subnets", READY, *says)


def _networks(status: NeutronStatus) -> CheckResult:
    uncounted = [f"{uuid} ({why})" for uuid, why in status.sight.networks_uncounted.items()]
    if uncounted:
        return _check("networks", WARNING, f"Servers claim no address of {_few(uncounted)}.")
    return _check("networks", READY, "Every network with segments is counted.")


def _hosts(status: NeutronStatus) -> CheckResult:
    if status.segments_without_hosts:
        return _check(
            "hosts of segments", FAILURE, f"No host is on {_few(status.segments_without_hosts)}:",
            "no placement aggregate of it has one. Nova's host aggregates of segments are mirrored by Nova;",
            "nova-manage placement sync_aggregates repeats it.",
        )  # fmt: skip
    return _check("hosts of segments", READY, "Every segment that is counted has hosts.")


def _one_segment(status: NeutronStatus) -> CheckResult:
    hosts = [f"{host} (network {network})" for host, network in status.hosts_on_two_segments]
    if hosts:
        return _check(
            "one segment a host", WARNING, f"On several segments of one network: {_few(hosts)}.",
            "The emptier one is claimed there, and Neutron may take the other.",
        )  # fmt: skip
    return _check("one segment a host", READY, "No host is on two segments of one network.")


def _rounds(status: NeutronStatus, late_s: float) -> CheckResult:
    rounds, age_s = status.rounds, status.round_age_s
    if age_s is None:
        return _check("rounds", FAILURE, "No round has counted anything yet: is a roost serve --with-neutron running?")
    last = f"The last round ended {age_s:.0f} s ago."
    if age_s > late_s:
        return _check("rounds", FAILURE, last, "No poller runs, or none gets an answer.")
    if note := rounds.note():
        return _check("rounds", WARNING, last, f"Not all of it was believed: {note}.")
    return _check("rounds", READY, last, f"{many(rounds.rounds_unbelieved, 'round')} ever were not believed.")


def _differences(status: NeutronStatus) -> CheckResult:
    if status.fault:
        return _check("differences", WARNING, "Neutron could not be asked.")
    if status.differences:
        return _check(
            "differences", WARNING, f"{many(status.differences, 'difference')} between Neutron and the ledger now.",
            "A round writes them; roost-manage adopt --dry-run lists them.",
        )  # fmt: skip
    return _check("differences", READY, "The ledger agrees with Neutron now.")


def _claims(implied_addresses: bool) -> CheckResult:
    if implied_addresses:
        return _check("claims of servers", READY, "Servers claim an address with CPU, memory and disk.")
    return _check(
        "claims of servers", FAILURE, "[placement] implied_addresses is not true: servers claim no address, ports do."
    )


def _searches(status: NeutronStatus) -> CheckResult:
    option = "[scheduler] query_placement_for_routed_network_aggregates"
    if (age_s := status.searches_age_s.get(True)) is not None:
        return _check("Nova's filter", READY, f"Nova last asked for hosts of a routed network {age_s:.0f} s ago.")
    if status.searches_age_s:
        return _check(
            "Nova's filter", WARNING, "No search has named a segment yet:",
            f"either nobody has booted onto a routed network, or {option} is not true in Nova's schedulers.",
        )  # fmt: skip
    return _check(
        "Nova's filter", WARNING, f"No search has come yet. Boot onto a routed network; {option} must be true."
    )


def _few(texts: Iterable[str]) -> str:
    """Return some of the texts, and how many more there are."""
    listed = list(texts)
    more = len(listed) - SHOWN_MAX
    return ", ".join(listed[:SHOWN_MAX]) + (f" and {more:,} more" if more > 0 else "")
