"""Who may read metrics, and how often they are made."""

import asyncio

import pytest
from starlette.applications import Starlette
from tests.platform.asgi import send_raw

from roost.platform.metrics_routes import KEEP_S, MetricsText, metrics_routes


class Source:
    """Metrics that say how often they were made. failing: making them raises."""

    def __init__(self) -> None:
        self.count = 0
        self.now_s = 100.0
        self.failing = False
        self.text = MetricsText(self.make, clock=lambda: self.now_s)

    async def make(self) -> bytes:
        self.count += 1
        await asyncio.sleep(0)
        if self.failing:
            raise OSError
        return b"made %d" % self.count


async def test_who_asks_at_once_or_soon_gets_what_was_made_once() -> None:
    source = Source()
    assert await asyncio.gather(*(source.text.read() for _ in range(5))) == [b"made 1"] * 5
    source.now_s += KEEP_S - 0.1
    assert await source.text.read() == b"made 1"
    source.now_s += 0.1
    assert await source.text.read() == b"made 2"


async def test_a_failure_is_told_to_all_who_wait_and_is_not_kept() -> None:
    source = Source()
    source.failing = True
    told = await asyncio.gather(*(source.text.read() for _ in range(3)), return_exceptions=True)
    assert [type(error) for error in told] == [OSError] * 3
    source.failing = False
    assert await source.text.read() == b"made 2"


async def test_who_goes_away_does_not_take_it_from_the_others() -> None:
    source = Source()
    first, second = asyncio.create_task(source.text.read()), asyncio.create_task(source.text.read())
    await asyncio.sleep(0)
    first.cancel()
    assert await second == b"made 1"


@pytest.mark.parametrize(
    ("token", "open_paths", "authorization", "status"),
    [
        ("", ("/metrics",), None, 200),
        ("", (), None, 404),
        ("", (), b"Bearer ", 404),
        ("t0ken", ("/metrics",), None, 200),
        ("t0ken", (), None, 401),
        ("t0ken", (), b"", 401),
        ("t0ken", (), b"t0ken", 401),
        ("t0ken", (), b"Basic t0ken", 401),
        ("t0ken", (), b"Bearer", 401),
        ("t0ken", (), b"Bearer t0ke", 401),
        ("t0ken", (), b"Bearer t0kens", 401),
        ("t0ken", (), "Bearer tökén".encode(), 401),
        ("t0ken", (), b"Bearer t0ken", 200),
        ("t0ken", (), b"bearer  t0ken", 200),
    ],
)
async def test_a_path_is_open_or_opened_by_the_token_or_not_there(
    token: str, open_paths: tuple[str, ...], authorization: bytes | None, status: int
) -> None:
    source = Source()
    app = Starlette(routes=metrics_routes({"/metrics": source.text}, token=token, open_paths=open_paths))
    headers = () if authorization is None else ((b"authorization", authorization),)
    answer = await send_raw(app, "GET", b"/metrics", headers)
    assert answer.status == status
    assert source.count == (status == 200)
    assert ("www-authenticate" in answer.headers) == (status == 401)
