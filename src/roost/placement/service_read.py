"""The ledger's operations that only read: answered from the index as of now, or from one statement or two."""

from collections.abc import Sequence

from roost.placement.candidates import search
from roost.placement.service import Ledger
from roost.seams.placement import CandidateQuery, Candidates

START_MAX = 2**31


async def list_candidates(ledger: Ledger, queries: Sequence[CandidateQuery]) -> list[Candidates]:
    """The candidates of each query, as of now; those of a limited query start at a host chosen by chance.

    Every searcher that saw the same first hosts would claim there, and be refused there.
    """
    index = await ledger.index.fresh()
    return [
        search(index, query, start=ledger.env.random.randrange(START_MAX) if query.limit else 0) for query in queries
    ]
