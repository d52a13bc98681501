"""Reports of agents, as tests make them: only the answers matter."""

from collections.abc import Sequence

from roost.compute.service import Compute
from roost.compute.service.guests import take_reports
from roost.seams.agent import AgentIdentity, GuestReport, ReportAnswer


async def report(compute: Compute, reports: Sequence[GuestReport], *, agent: AgentIdentity) -> list[ReportAnswer]:
    """Make the reports; return the answers."""
    return list((await take_reports(compute, reports, agent=agent)).reports)
