"""What docs say of operating is true: every error, metric, alert, figure, command and setting."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from contextlib import closing
from typing import Any

import pytest
import yaml
from typer.main import get_command

from tests.conftest import ROOT, error_kinds
from toolcrib import errors
from toolcrib.cli.app import app
from toolcrib.http.errors import HTTP_PROBLEMS
from toolcrib.problems import INTERNAL, PROBLEMS, slug_of
from toolcrib.settings import Settings
from toolcrib.store.records_db import DbRow
from toolcrib.store.records_db.sqlite import SqliteRecordsDb
from toolcrib.telemetry import Metrics

PAGE = "\n".join(
    (ROOT / "docs" / f"{page}.md").read_text("utf-8")
    for page in ("how-to/operate", "how-to/secure", "how-to/backup", "how-to/watch")
)
ERRORS = (ROOT / "docs" / "reference" / "errors.md").read_text("utf-8")
SIZES = (ROOT / "docs" / "explanation" / "measured.md").read_text("utf-8")
COMPOSE = yaml.safe_load((ROOT / "docker-compose.yml").read_text("utf-8"))
ALERTS = yaml.safe_load((ROOT / "deploy" / "prometheus" / "alerts.yml").read_text("utf-8"))


def table(heading: str, page: str = PAGE) -> list[list[str]]:
    """The rows of the first table whose head begins with this, cells without their marks."""
    _, _, rest = page.partition(f"\n| {heading}")
    rows = re.match(r"[^\n]*\n\| ---[^\n]*\n((?:\|[^\n]*\n)+)", rest)
    assert rows is not None
    return [
        [cell.strip().strip("`") for cell in row.strip("|").split(" | ")]
        for row in rows[1].strip().splitlines()
    ]


KINDS = [kind.__name__ for kind in error_kinds()]
ROWS = {row[0].lstrip("| ").strip("`"): row[1:] for row in table("problem", ERRORS)}


def test_every_error_has_a_row_with_its_status_and_its_exit_code():
    for name in KINDS:
        kind = getattr(errors, name)
        problem = next(PROBLEMS[each] for each in kind.__mro__ if each in PROBLEMS)
        status, exit_code, means, do = ROWS[slug_of(kind)]
        assert (int(status), int(exit_code)) == (problem.status, problem.exit_code), name
        assert means, name
        assert do, name


def test_what_http_has_words_for_has_a_row_too():
    rows = {slug: int(row[0]) for slug, row in ROWS.items()}
    assert rows["internal"] == INTERNAL.status
    assert {slug: rows[slug] for slug, _ in HTTP_PROBLEMS.values()} == {
        slug: status for status, (slug, _) in HTTP_PROBLEMS.items()
    }


def test_no_row_is_about_an_error_that_does_not_exist():
    known = {slug_of(getattr(errors, name)) for name in KINDS}
    known |= {slug for slug, _ in HTTP_PROBLEMS.values()}
    assert set(ROWS) == known | {"internal"}


def test_every_alert_has_a_row_and_no_other():
    alerts = {rule["alert"] for group in ALERTS["groups"] for rule in group["rules"]}
    assert {row[0].lstrip("| ") for row in table("alert")} == alerts


def test_every_metric_of_requests_has_a_row_with_its_labels():
    rows = {row[0].lstrip("| ").strip("`"): row[1] for row in table("metric")}
    for metric in vars(Metrics()).values():
        if hasattr(metric, "labels") and hasattr(metric, "describe"):
            (family,) = metric.describe()
            name = f"{family.name}_total" if family.type == "counter" else family.name
            assert rows[name] == ", ".join(metric._labelnames)


@pytest.mark.parametrize(
    "row", table("what | measured", SIZES), ids=lambda row: row[0].lstrip("| ")
)
def test_a_figure_is_what_the_file_says(row):
    _, measured, source = row
    name, _, path = source.partition(": ")
    value = json.loads((ROOT / "benchmarks" / "results" / name).read_text("utf-8"))
    assert value["command"].startswith("python benchmarks/")
    for step in path.split("."):
        value = value[step]
    shown = float(measured.split()[0].replace(",", ""))
    assert shown == pytest.approx(value, rel=0.005)


def test_the_ledger_is_copied_while_it_is_written(tmp_path):
    (command,) = re.findall(r"^.*python -c .*ledger.*$", PAGE, re.MULTILINE)
    for name in ("lib", "backup"):
        (tmp_path / name).mkdir()
    command = command.replace("/var/lib/toolcrib", f"{tmp_path}/lib")
    command = command.replace("/backup/", f"{tmp_path}/backup/").replace("python", sys.executable)
    with closing(SqliteRecordsDb(tmp_path / "lib" / "ledger.db")) as ledger:
        ledger.put("keys", DbRow("a", 1.0, {"name": "me"}))
        subprocess.run(["bash", "-c", command], check=True)
        ledger.put("keys", DbRow("b", 2.0, {"name": "you"}))
    assert (tmp_path / "backup" / "ledger.db").stat().st_mode & 0o077 == 0
    with closing(SqliteRecordsDb(tmp_path / "backup" / "ledger.db")) as copy:
        assert copy.get("keys", "a") == DbRow("a", 1.0, {"name": "me"})
        assert copy.get("keys", "b") is None


def commands(group: Any) -> set[str]:
    """Every command, those of a group behind its name."""
    found = set()
    for name in group.list_commands(None):
        each = group.get_command(None, name)
        is_group = hasattr(each, "list_commands")
        found |= {f"{name} {command}" for command in commands(each)} if is_group else {name}
    return found


BLOCKS = "\n".join(re.findall(r"```bash\n(.*?)```", PAGE, re.DOTALL))
LINES = [*BLOCKS.splitlines(), *re.findall(r"`([^`\n]+)`", PAGE)]


def test_every_command_exists():
    known = commands(get_command(app))
    calls = r"(?:(?:^|=\S+ )toolcrib|run --rm (?:toolcrib|replica)) ((?:keys )?[a-z-]+)"
    called = {command for line in LINES for command in re.findall(calls, line)}
    assert {"serve", "keys create"} <= called <= known


def test_every_service_and_profile_that_compose_is_asked_for_exists():
    lines = [line for line in LINES if line.startswith(("docker compose", "--profile"))]
    profiles = {profile for line in lines for profile in re.findall(r"--profile (\w+)", line)}
    known = {p for service in COMPOSE["services"].values() for p in service.get("profiles", [])}
    assert profiles <= known
    ran = {name for line in lines for name in re.findall(r"run --rm (\w+)", line)}
    assert ran <= set(COMPOSE["services"])


def test_every_port_is_published():
    published = {
        port.split(":")[1] for one in COMPOSE["services"].values() for port in one.get("ports", [])
    }
    published |= set(re.findall(r"--publish 127\.0\.0\.1:(\d+)", PAGE))
    assert set(re.findall(r"localhost:(\d+)", PAGE)) <= published


def test_every_setting_exists():
    settings = Settings().model_dump()
    named = re.findall(r"TOOLCRIB_([A-Z]+)__([A-Z_]+)", PAGE)
    dotted = re.findall(r"`(service|server|encoder|telemetry)\.([a-z_]+)`", PAGE)
    for group, field in [(g.lower(), f.lower()) for g, f in named] + dotted:
        assert field in settings[group]
