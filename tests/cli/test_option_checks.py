"""What the words of `roost serve` and `roost agent` mean, and what is said of those that mean nothing."""

import pytest
import typer
from typer.testing import CliRunner

from roost.cli.main import app
from roost.cli.serving.option_checks import (
    read_address,
    read_addresses,
    read_agent_hosts,
    read_metrics_address,
    read_policy,
    read_services,
)
from roost.seams.agent import HostReport

LIKE = HostReport(name="", vcpus=8, ram_mb=1024, disk_gb=10, service_version=3, physical_networks=("p1",))


@pytest.mark.parametrize(
    ("words", "services"),
    [
        (["all"], ("placement", "network", "compute", "conductor")),
        (["network", "all"], ("placement", "network", "compute", "conductor")),
        (["network", "placement"], ("placement", "network")),
        (["conductor", "conductor"], ("conductor",)),
    ],
)
def test_services_come_in_their_usual_order(words: list[str], services: tuple[str, ...]) -> None:
    assert read_services(words) == services


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:8778", ("127.0.0.1", 8778)),
        ("[::1]:0", ("::1", 0)),
        ("roost.example.org:65535", ("roost.example.org", 65535)),
    ],
)
def test_an_address_is_a_host_and_a_port(text: str, address: tuple[str, int]) -> None:
    assert read_address("--listen", text) == address


@pytest.mark.parametrize(
    ("auth", "agent_listen", "agents"),
    [
        ("keystone", None, ("127.0.0.1", 0)),
        ("keystone", "10.0.0.2:9", ("10.0.0.2", 9)),
        ("noauth2", None, ("127.0.0.1", 0)),
    ],
)
def test_agents_that_need_a_token_are_on_loopback_unless_it_is_said(
    auth: str, agent_listen: str | None, agents: tuple[str, int]
) -> None:
    addresses = read_addresses("10.0.0.1:8778", agent_listen, auth=auth, insecure_auth=auth == "noauth2")
    assert (addresses["host"], addresses["port"]) == ("10.0.0.1", 8778)
    assert (addresses["agent_host"], addresses["agent_port"]) == agents


@pytest.mark.parametrize(
    ("listen", "agent_listen", "agents"),
    [
        ("127.0.0.2:1", None, ("127.0.0.2", 0)),
        ("[::1]:1", None, ("::1", 0)),
        ("localhost:1", "127.0.0.1:9", ("127.0.0.1", 9)),
    ],
)
def test_whom_nobody_asks_is_on_this_machine(listen: str, agent_listen: str | None, agents: tuple[str, int]) -> None:
    addresses = read_addresses(listen, agent_listen, auth="none")
    assert (addresses["agent_host"], addresses["agent_port"]) == agents


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("", {}),
        ("9178", {"metrics_host": "127.0.0.1", "metrics_port": 9178}),
        ("10.0.0.1:9", {"metrics_host": "10.0.0.1", "metrics_port": 9}),
        ("[::]:0", {"metrics_host": "::", "metrics_port": 0}),
    ],
)
def test_metrics_have_a_listener_where_one_is_named(text: str, address: dict[str, object]) -> None:
    assert read_metrics_address(text) == address


@pytest.mark.parametrize("words", [(), ("--auth", "none")])
@pytest.mark.parametrize("option", ["--listen", "--agent-listen"])
@pytest.mark.parametrize("address", ["0.0.0.0", "[::]", "192.0.2.1", "roost.example.org"])
def test_serve_opens_to_nobody_who_is_not_asked_for_a_token(words: tuple[str, ...], option: str, address: str) -> None:
    words = (*words, "--policy", "open")  # refused as well, so that nothing is ever served here
    done = CliRunner().invoke(app, ["serve", "placement", option, f"{address}:0", *words])
    assert done.exit_code == 2
    said = " ".join(done.output.replace("│", " ").split())
    assert f"{option} {address.strip('[]')}: others reach it, and with --auth none each is an admin" in said


@pytest.mark.parametrize(
    ("auth", "policy", "meant"),
    [("none", None, None), ("keystone", None, None), ("keystone", "secure-rbac", "secure-rbac")],
)
def test_a_policy_is_for_callers_that_are_known(auth: str, policy: str | None, meant: str | None) -> None:
    assert read_policy(auth, policy) == meant


@pytest.mark.parametrize(
    ("names", "fleet", "hosts"),
    [
        (["a", "b"], None, ["a", "b"]),
        (None, "all", None),
        (None, "2", ["host-1", "host-2"]),
    ],
)
def test_hosts_are_named_or_counted(names: list[str] | None, fleet: str | None, hosts: list[str] | None) -> None:
    reports = read_agent_hosts(names, fleet, LIKE)
    if hosts is None:
        assert reports is None
        return
    assert reports is not None
    assert [(one.vcpus, one.physical_networks) for one in reports] == [(8, ("p1",))] * 2
    assert names is None or [one.name for one in reports] == hosts


@pytest.mark.parametrize(
    ("refusal", "read"),
    [
        ("no service nova: expected all, or any of placement", lambda: read_services(["nova"])),
        ("--listen 8778: expected an address and a port", lambda: read_address("--listen", "8778")),
        ("--listen a:65536: expected an address and a port", lambda: read_address("--listen", "a:65536")),
        ("--metrics-listen x: expected an address", lambda: read_metrics_address("x")),
        ("--metrics-listen 127.0.0.1:65536: expected", lambda: read_metrics_address("65536")),
        ("--agent-listen x: expected an address", lambda: read_addresses("a:1", "x", auth="none")),
        (
            "--listen a: others reach it, and with --auth noauth2 each is an admin who says so",
            lambda: read_addresses("a:1", None, auth="noauth2"),
        ),
        ("--auth ldap: expected none", lambda: read_policy("ldap", None)),
        ("--policy needs callers that are known", lambda: read_policy("none", "upstream")),
        ("--policy: ", lambda: read_policy("keystone", "/no/such/file")),
        ("expected either --host, once or more, or --fleet", lambda: read_agent_hosts(None, None, LIKE)),
        ("expected either --host, once or more, or --fleet", lambda: read_agent_hosts(["a"], "all", LIKE)),
        ("--host: ", lambda: read_agent_hosts(["a b"], None, LIKE)),
        ("--fleet many: expected all or a number", lambda: read_agent_hosts(None, "many", LIKE)),
    ],
)
def test_what_means_nothing_is_refused_by_its_options_name(refusal: str, read: object) -> None:
    assert callable(read)
    with pytest.raises(typer.BadParameter, match="^" + refusal.replace(".", r"\.")):
        read()
