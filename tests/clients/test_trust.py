"""Whose certificate Roost believes of the services that it asks: that of its cafile, and nobody else's."""

import ssl
from pathlib import Path
from typing import Any

import pytest
from tests.authority import Authority
from tests.fake_neutron import FakeNeutron
from tests.platform.fake_keystone import FakeKeystone

from roost.clients.neutron import HttpNeutron
from roost.platform.auth import AuthenticationUnavailable
from roost.platform.keystone import Keystone
from roost.platform.settings import KeystoneSettings, NeutronSettings
from roost.seams.neutron import NeutronUnavailable

TRUSTS = pytest.mark.parametrize(
    ("options", "is_believed"),
    [({"cafile": "ca.pem"}, True), ({"insecure": True}, True), ({}, False), ({"cafile": "other.pem"}, False)],
    ids=["trusted", "insecure", "unknown", "another"],
)


def sign(folder: Path) -> ssl.SSLContext:
    """Return the context of a server whose certificate `ca.pem` signed; `other.pem` did not."""
    authority, _other = Authority(folder), Authority(folder, "other")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(*authority.sign("server"))
    return context


def below(folder: Path, options: dict[str, Any]) -> dict[str, Any]:
    return options | {name: str(folder / options[name]) for name in options.keys() & {"cafile"}}


@TRUSTS
async def test_a_keystone_is_believed_by_its_cafile(tmp_path: Path, options: dict[str, Any], is_believed: bool) -> None:
    server = FakeKeystone(tls=sign(tmp_path))
    await server.start()
    settings = KeystoneSettings(
        auth_url=server.url, username="roost", password="secret", timeout_s=5, **below(tmp_path, options)
    )
    keystone = Keystone(settings, clock=server.world.clock, now=server.world.now)
    try:
        if is_believed:
            assert (await keystone.own_token()).roles == ("service",)
        else:
            with pytest.raises(AuthenticationUnavailable):
                await keystone.own_token()
    finally:
        await keystone.close()
        await server.stop()


@TRUSTS
async def test_a_neutron_is_believed_by_its_cafile(tmp_path: Path, options: dict[str, Any], is_believed: bool) -> None:
    server = FakeNeutron(tls=sign(tmp_path))
    server.add_network({"one": 1})
    async with server.serve():
        neutron = HttpNeutron(NeutronSettings(url=server.url, **below(tmp_path, options)), None)
        try:
            if is_believed:
                assert len(await neutron.list_networks()) == 1
            else:
                with pytest.raises(NeutronUnavailable, match="ertificate"):
                    await neutron.list_networks()
        finally:
            await neutron.close()
