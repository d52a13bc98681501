"""roost.toml and the ROOST_… variables: what nothing reads is refused, by name, and all of it at once."""

import re
from pathlib import Path

import msgspec
import pytest
from tests import launching

from roost.cli.settings import Settings, read_settings
from roost.platform.config import OTHER_VARIABLES, variable_of
from roost.platform.errors import BadRequest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("text", "variables", "said"),
    [
        ("[placment]\naudit_s = 5", {}, "there is no section [placment]: is placement meant?"),
        ("[tls]\ncert = 1", {}, "there is no section [tls]: the sections are "),
        ("audit_s = 5", {}, "there is no section [audit_s]: the sections are "),
        ("[placement]\naudits = 5", {}, "[placement] has no option audits; it has "),
        ("", {"ROOST_NETWORK_RECONCIL_S": "5"}, "ROOST_NETWORK_RECONCIL_S in the environment is no option of Roost: is "
         "ROOST_NETWORK_RECONCILE_S meant?"),
        ("", {"ROOST_HOME": "/x"}, "ROOST_HOME in the environment is no option of Roost"),
        ("[a]\n[b]", {"ROOST_HOME": "/x", "ROOST_DATA": "/y"}, "[b]"),
    ],
)  # fmt: skip
def test_what_nothing_reads_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, variables: dict[str, str], said: str
) -> None:
    file = tmp_path / "roost.toml"
    file.write_text(text)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(BadRequest) as caught:
        read_settings(file)
    sentence = str(caught.value)
    assert said in sentence
    assert all(name in sentence for name in variables)


@pytest.mark.parametrize("address", ["127.0.0.1:9292", "file:///etc", "glance"])
def test_an_image_service_needs_an_address(monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    monkeypatch.setenv("ROOST_COMPUTE_IMAGE_URL", address)
    with pytest.raises(BadRequest) as caught:
        read_settings(None)
    assert str(caught.value) == (
        f"ROOST_COMPUTE_IMAGE_URL: [compute] image_url '{address}': expected an address: http://127.0.0.1:9292"
    )


def test_serve_ends_with_the_names_before_anything_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROOST_CONDUCTOR_LEASES_S", "3")
    done = launching.run("serve", "--data-dir", str(tmp_path / "data"), "--listen", "127.0.0.1:0")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "roost: ROOST_CONDUCTOR_LEASES_S in the environment is no option of Roost: is ROOST_CONDUCTOR_LEASE_S meant?\n"
    )
    assert not (tmp_path / "data").exists()


def test_every_variable_that_anything_names_is_declared() -> None:
    options = {
        variable_of(section.name, option.name)
        for section in msgspec.structs.fields(Settings)
        for option in msgspec.structs.fields(section.type)
    }
    named = set()
    for folder in ("src", "tests", "benchmarks", "docs"):
        for file in [*(ROOT / folder).rglob("*.py"), *(ROOT / folder).rglob("*.md")]:
            if file != Path(__file__):
                named |= {(word, str(file)) for word in re.findall(r"\bROOST_[A-Z_]+[A-Z]\b", file.read_text())}
    examples = {"ROOST_SECTION_OPTION", "ROOST_KEYSTONE", "ROOST_ROLES"}
    assert [one for one in sorted(named) if one[0] not in options | OTHER_VARIABLES | examples] == []


def test_upstreams_quotas_hold_where_keystone_knows_who_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = read_settings(None)
    assert (settings.has_keystone, settings.with_quotas(keystone=False)) == (False, settings)
    monkeypatch.setenv("ROOST_KEYSTONE_AUTH_URL", "https://keystone.example:5000")
    monkeypatch.setenv("ROOST_COMPUTE_QUOTA_CORES", "-1")
    settings = read_settings(None)
    assert settings.has_keystone
    limited = settings.with_quotas(keystone=True)
    assert (limited.compute.quota_instances, limited.compute.quota_cores, limited.network.quota_port) == (10, -1, 500)
