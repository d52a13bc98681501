"""What the words of `roost serve` and `roost agent` mean. Each raises typer.BadParameter, which names the option."""

import re
from typing import TYPE_CHECKING, Any, NoReturn

import msgspec
import typer

from roost.cli.serving.roles import AUTHS, SERVICES, check_policy_word
from roost.platform.errors import BadRequest
from roost.platform.loopback import is_loopback

if TYPE_CHECKING:
    from roost.seams.agent import HostReport

UUID = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def misused(text: str) -> NoReturn:
    """End the command with exit status 2 and this sentence."""
    raise typer.BadParameter(text)


def read_services(words: list[str]) -> tuple[str, ...]:
    """Return the services of SERVICE..., in their usual order; all stands for every one."""
    unknown = [word for word in words if word not in (*SERVICES, "all")]
    if unknown:
        misused(f"no service {unknown[0]}: expected all, or any of {', '.join(SERVICES)}")
    return SERVICES if "all" in words else tuple(service for service in SERVICES if service in words)


def read_policy(auth: str, policy: str | None) -> str | None:
    """Return --policy, checked together with --auth."""
    if auth not in AUTHS:
        misused(f"--auth {auth}: expected {', '.join(AUTHS)}")
    if policy is None:
        return None
    if auth == "none":
        misused("--policy needs callers that are known: --auth " + " or ".join(AUTHS[1:]))
    try:
        return check_policy_word(policy)
    except BadRequest as error:
        misused(f"--policy: {error}")


def read_address(option: str, text: str) -> tuple[str, int]:
    """Return host and port of an option such as --listen; an IPv6 address is in brackets."""
    match = re.fullmatch(r"\[?([^\[\]]+?)\]?:([0-9]{1,5})", text)
    if match is None or int(match[2]) > 65535:
        misused(f"{option} {text}: expected an address and a port such as 127.0.0.1:8778")
    return match[1], int(match[2])


def read_metrics_address(text: str) -> dict[str, Any]:
    """Return host and port of --metrics-listen, as ServeOptions has them; a port alone is one of 127.0.0.1."""
    if not text:
        return {}
    host, port = read_address("--metrics-listen", f"127.0.0.1:{text}" if text.isdecimal() else text)
    return {"metrics_host": host, "metrics_port": port}


def read_addresses(listen: str, agent_listen: str | None, *, auth: str, insecure_auth: bool = False) -> dict[str, Any]:
    """Return host and port of both listeners, as ServeOptions has them.

    Agents are by default on loopback where they need a token: opening it to others is a decision. Where nobody is asked
    who they are, every caller is an admin: then both listeners are for this machine. With noauth2 whoever says so is
    one, on the main listener: another address is for who means it, with insecure_auth.
    """
    host, port = read_address("--listen", listen)
    agent_default = (host if auth == "none" else "127.0.0.1", 0)
    agent_host, agent_port = read_address("--agent-listen", agent_listen) if agent_listen else agent_default
    for option, address in (("--listen", host), ("--agent-listen", agent_host)):
        if auth == "none" and not is_loopback(address):
            misused(f"{option} {address}: others reach it, and with --auth none each is an admin: use --auth keystone")
    if auth == "noauth2" and not insecure_auth and not is_loopback(host):
        misused(
            f"--listen {host}: others reach it, and with --auth noauth2 each is an admin who says so: use --auth "
            "keystone, or --insecure-auth if that is meant"
        )
    return {"host": host, "port": port, "agent_host": agent_host, "agent_port": agent_port}


def read_agent_hosts(names: list[str] | None, fleet: str | None, like: "HostReport") -> "list[HostReport] | None":
    """Return the hosts of --host or --fleet, each with what `like` has; None for every declared one."""
    from roost.agent.identity import fleet as make_fleet
    from roost.compute.rules.host_names import find_bad_host_name

    if (names is None) == (fleet is None):
        misused("expected either --host, once or more, or --fleet")
    if names is not None:
        if (flaw := find_bad_host_name(names)) is not None:
            misused(f"--host: {flaw}")
        return [msgspec.structs.replace(like, name=name) for name in names]
    if fleet == "all":
        return None
    if not re.fullmatch(r"[0-9]{1,6}", fleet or ""):
        misused(f"--fleet {fleet}: expected all or a number of hosts")
    return make_fleet(int(fleet or ""), like=like)
