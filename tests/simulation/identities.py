"""Who the hosts' agents say they are: ids, service versions, starts, secrets, and the marks that they were told."""

from collections.abc import Iterable

from msgspec.structs import replace
from tests.agent.cloud import AGENT

from roost.seams.agent import SERVICE_VERSION, AgentIdentity

BOOTED = replace(
    AGENT,
    service_version=SERVICE_VERSION,
    boot_id="b0000000-0000-0000-0000-00000000000b",
    secret="of the first agent",
    described=True,
)
"""The agent of today with which each story begins."""


class Identities:
    """The agents. own: of hosts that have one of their own; one has the rest, `shared`.

    versions: of hosts whose agents are of releases before, which say neither start nor secret, and keep no mark.
    """

    def __init__(self) -> None:
        self.shared = BOOTED
        self.own: dict[str, AgentIdentity] = {}
        self.versions: dict[str, int] = {}
        self._marks: dict[str, str] = {}

    def agent_of(self, host: str) -> AgentIdentity:
        """Return who serves the host, or would, with the mark that it was told last."""
        agent = self.own.get(host, self.shared)
        if (version := self.versions.get(host)) is not None:
            return AgentIdentity(id=agent.id, label=agent.label, service_version=version)
        return replace(agent, mark=self._marks.get(agent.id, ""))

    def has_agent(self, host: str, agent: AgentIdentity) -> bool:
        """Return whether the host is this agent's, of whatever mark."""
        return replace(self.agent_of(host), mark="") == replace(agent, mark="")

    def keep_mark(self, agent: AgentIdentity, mark: str) -> None:
        """Keep what the agent was told."""
        if mark and agent.boot_id is not None:
            self._marks[agent.id] = mark

    def restart(self, host: str, boot_id: str) -> None:
        """Have the host's agent begin anew."""
        if host in self.own:
            self.own[host] = replace(self.own[host], boot_id=boot_id)
        else:
            self.shared = replace(self.shared, boot_id=boot_id)

    def install(self, host: str, agent_id: str, boot_id: str) -> None:
        """Give the host an agent of its own that has nothing."""
        like = replace(BOOTED, keeps_disks=self.shared.keeps_disks)
        self.own[host] = replace(like, id=agent_id, boot_id=boot_id, secret=f"of {agent_id}")

    def keep_disks(self) -> None:
        """Have all agents of today say that their guests have disks; called once, first."""
        self.shared = replace(self.shared, keeps_disks=True)

    def group(self, hosts: Iterable[str]) -> dict[AgentIdentity, list[str]]:
        """Return agent -> those of the hosts that it serves."""
        hosts_by_agent: dict[AgentIdentity, list[str]] = {}
        for host in hosts:
            hosts_by_agent.setdefault(self.agent_of(host), []).append(host)
        return hosts_by_agent
