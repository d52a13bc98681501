"""What the ledger counts of itself, for `/metrics`: claims, conflicts, the index; and all inventories at once."""

from collections.abc import Iterator, Sequence

from prometheus_client import Counter
from prometheus_client.metrics_core import GaugeMetricFamily, Metric

from roost.placement.model import ProviderRow
from roost.placement.service.ledger import Ledger
from roost.placement.store import providers as providers_store
from roost.seams.placement import Claimed, Refused

CLAIM_GROUPS = Counter(
    "roost_claim_groups_total", "Groups of claims that were decided, by whether they were taken.", ("result",)
)
CLAIM_SHORTFALLS = Counter(
    "roost_claim_shortfalls_total",
    "Why claims were refused, each reason of each group. segment: the provider, if it is short of addresses.",
    ("reason", "resource_class", "segment"),
)
GENERATION_CONFLICTS = Counter(
    "roost_generation_conflicts_total", "Answers that somebody else changed a provider or a consumer meanwhile."
)
ADDRESS_CLASSES = frozenset({"IPV4_ADDRESS", "CUSTOM_IPV6_ADDRESS"})


def count_claims(answers: Sequence[Claimed | Refused]) -> None:
    """Count what was decided."""
    for answer in answers:
        if isinstance(answer, Claimed):
            CLAIM_GROUPS.labels("taken").inc()
            continue
        CLAIM_GROUPS.labels("refused").inc()
        for reason in {
            (
                shortfall.rule.value,
                shortfall.resource_class,
                shortfall.provider_uuid if shortfall.resource_class in ADDRESS_CLASSES else "",
            )
            for shortfall in answer.shortfalls
        }:
            CLAIM_SHORTFALLS.labels(*reason).inc()


def index_figures(ledger: Ledger) -> Iterator[Metric]:
    """Yield the size and the age of this process's index; no age before it was first read."""
    providers, age_s = ledger.index.figures()
    yield GaugeMetricFamily("roost_index_providers", "Providers in the process's index.", value=providers)
    if age_s is not None:
        text = "Seconds since the index was last brought up to date, which every search does."
        yield GaugeMetricFamily("roost_index_age_seconds", text, value=age_s)


async def list_providers(ledger: Ledger) -> list[ProviderRow]:
    """Return every provider with all that it has, by id. Costs what loading an index does."""
    async with ledger.database.transaction(snapshot=True) as tx:
        return await providers_store.list_all(tx)
