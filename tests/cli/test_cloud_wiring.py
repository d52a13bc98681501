"""What the configuration makes of the parts beyond the ledger: which other services they speak to."""

from typing import Any

import pytest
from tests.fake_glance import a_glance

from roost.cli.serving.cloud_wiring import CloudParts
from roost.cli.serving.wiring import Parts
from roost.cli.settings import read_settings
from roost.compute.service import Compute
from roost.placement.service.ledger import Ledger
from roost.platform.health import Health

NOTHING: Any = None
IMAGE = "11111111-1111-4111-8111-111111111111"


def wired() -> tuple[Parts, Compute]:
    """The parts of a process, without a database."""
    settings = read_settings(None)
    cloud = CloudParts.wire(Ledger(NOTHING), NOTHING, settings, NOTHING)
    parts = Parts(
        database=NOTHING, health=Health(NOTHING), wakeups=NOTHING, telemetry=NOTHING, settings=settings, ledger=NOTHING,
        policy=NOTHING, keystone=None, cloud=cloud,
    )  # fmt: skip
    return parts, cloud.compute


async def test_without_an_endpoint_there_is_no_image_service() -> None:
    parts, compute = wired()
    assert compute.images is None
    await parts.close()


async def test_the_image_service_is_the_one_that_is_named_until_the_process_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with a_glance() as (glance, _):
        glance.add(IMAGE)
        monkeypatch.setenv("ROOST_COMPUTE_IMAGE_URL", glance.url)
        parts, compute = wired()
        assert compute.images is not None
        assert await compute.images.find_image(IMAGE, token="t") is not None
        assert glance.asked == [(IMAGE, "t")]
        await parts.close()
        with pytest.raises(RuntimeError, match="Session is closed"):
            await compute.images.find_image(IMAGE, token="t")


@pytest.mark.parametrize(
    ("environment", "wired_for_them"),
    [
        pytest.param({}, False, id="by itself"),
        pytest.param({"ROOST_COMPUTE_SERVICE_VERSION_MIN": "4"}, False, id="only newer agents"),
        pytest.param({"ROOST_COMPUTE_SERVICE_VERSION_MIN": "2"}, True, id="older agents"),
        pytest.param({"ROOST_NETWORK_URL": "http://127.0.0.1:9"}, True, id="conductors that may lose credentials"),
    ],
)
async def test_agents_make_and_bind_ports_only_where_some_may_have_to(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], wired_for_them: bool
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    parts, compute = wired()
    assert parts.cloud is not None
    assert (parts.cloud.conductor.old_agents is not None) is wired_for_them
    assert (compute.with_ports_going is not None) is wired_for_them
    await parts.close()
