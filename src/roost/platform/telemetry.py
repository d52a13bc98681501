"""The metrics of all processes of a server, of which any of them can tell.

Each process listens on a Unix socket of its name in a folder that the server's processes share, and the one that
answers asks the others. So nothing is written to disk, and all figures are as of now. Each sample has the label
`process`.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path

import msgspec
import structlog
from msgspec import Struct
from prometheus_client import REGISTRY, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

ANSWER_TIMEOUT_S = 3.0
"""Of the 10 s that Prometheus waits by default."""
ANSWER_BYTES_MAX = 64 * 1024 * 1024
UP = "roost_process_up"
Figures = Callable[[], Iterable[Metric]]

log = structlog.get_logger()


class Sample(Struct, frozen=True, array_like=True):
    """One figure."""

    name: str
    labels: dict[str, str]
    value: float


class Family(Struct, frozen=True, array_like=True):
    """The figures of one name, of one process."""

    name: str
    documentation: str
    type: str
    samples: list[Sample]


class Telemetry:
    """The metrics of the server's processes.

    folder: where their sockets are; None for a process without siblings. figures: what this one finds out about itself
    when it is asked.
    """

    def __init__(self, process: str, folder: Path | None, figures: Sequence[Figures] = ()) -> None:
        self._process = process
        self._folder = folder
        self._figures = figures

    async def run(self) -> None:
        """Answer the other processes until cancelled."""
        if self._folder is None:
            await asyncio.Event().wait()
            return
        path = self._folder / f"{self._process}.sock"
        path.unlink(missing_ok=True)  # of the one that died
        server = await asyncio.start_unix_server(self._answer, path)
        async with server:
            await server.serve_forever()

    async def _answer(self, _reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(msgspec.json.encode(list(self._own_families())))
        writer.write_eof()
        writer.close()

    async def collect(self) -> bytes:
        """Return the metrics of all processes as text. Source: Prometheus, text exposition format."""
        sockets = sorted(self._folder.glob("*.sock")) if self._folder else []
        others = [path for path in sockets if path.stem != self._process]
        answers = await asyncio.gather(*(_ask(path) for path in others))
        families_by_process = {path.stem: answer for path, answer in zip(others, answers, strict=True)}
        return generate_latest(_Merged({self._process: list(self._own_families()), **families_by_process}))

    def _own_families(self) -> Iterator[Family]:
        for metric in chain(REGISTRY.collect(), *(figures() for figures in self._figures)):
            samples = [Sample(sample.name, dict(sample.labels), sample.value) for sample in metric.samples]
            yield Family(metric.name, metric.documentation, metric.type, samples)


class _Merged(Collector):
    """Several processes' metrics as one. families_by_process: None for one that did not answer."""

    def __init__(self, families_by_process: dict[str, list[Family] | None]) -> None:
        self._families_by_process = families_by_process

    def collect(self) -> Iterable[Metric]:
        up = Metric(UP, "Whether the process answered just now.", "gauge")
        merged = {UP: up}
        for process, families in self._families_by_process.items():
            up.add_sample(UP, {"process": process}, float(families is not None))
            for family in families or ():
                metric = merged.setdefault(family.name, Metric(family.name, family.documentation, family.type))
                for sample in family.samples:
                    metric.add_sample(sample.name, sample.labels | {"process": process}, sample.value)
        return merged.values()


async def _ask(path: Path) -> list[Family] | None:
    """Return what a process says; None if it says nothing in time."""
    try:
        async with asyncio.timeout(ANSWER_TIMEOUT_S):
            reader, writer = await asyncio.open_unix_connection(path, limit=ANSWER_BYTES_MAX)
            try:
                return msgspec.json.decode(await reader.read(-1), type=list[Family])
            finally:
                writer.close()
    except (OSError, TimeoutError, msgspec.DecodeError) as error:
        log.warning(
            "a process does not answer with its metrics", process=path.stem, reason=str(error) or type(error).__name__
        )
        return None
