"""The files by which strangers build, report, cite and release follow their published schemas."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

from toolcrib.cli.app import COMMANDS

ROOT = Path(__file__).resolve().parents[2]
GITHUB = ROOT / ".github"
WORKFLOWS = sorted((GITHUB / "workflows").glob("*.yml"))
FORMS = sorted((GITHUB / "ISSUE_TEMPLATE").glob("[!c]*.yml"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


@pytest.mark.parametrize(
    ("schema", "file"),
    [
        *(("vendor.github-workflows", path) for path in WORKFLOWS),
        ("vendor.dependabot", GITHUB / "dependabot.yml"),
        ("vendor.github-actions", ROOT / "action.yml"),
        ("vendor.compose-spec", ROOT / "docker-compose.yml"),
        ("vendor.citation-file-format", ROOT / "CITATION.cff"),
        *(("vendor.github-issue-forms", path) for path in FORMS),
    ],
    ids=lambda each: getattr(each, "name", each),
)
def test_a_file_follows_its_published_schema(schema, file):
    tool = shutil.which("check-jsonschema", path=Path(sys.executable).parent)
    command = [tool, "--builtin-schema", schema, file, "-o", "json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert json.loads(done.stdout)["status"] == "ok", done.stdout


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_may_only_read_and_runs_no_text_of_strangers(path):
    workflow = yaml.safe_load(path.read_text("utf-8"))
    assert workflow["permissions"] == {"contents": "read"}
    jobs = workflow["jobs"].values()
    scripts = [step["run"] for job in jobs for step in job["steps"] if "run" in step]
    assert not [script for script in scripts if "${{" in script]


def test_every_python_that_is_promised_is_tested():
    promised = re.findall(r"Python :: (3\.\d+)", "\n".join(PROJECT["classifiers"]))
    jobs = yaml.safe_load((GITHUB / "workflows" / "tests.yml").read_text("utf-8"))["jobs"]
    assert set(promised) <= set(jobs["systems"]["strategy"]["matrix"]["python"])


def test_citation_and_chart_name_this_version():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    chart = yaml.safe_load(
        (ROOT / "deploy" / "helm" / "toolcrib" / "Chart.yaml").read_text("utf-8")
    )
    assert citation["version"] == chart["appVersion"] == PROJECT["version"]
    assert chart["description"] == PROJECT["description"]


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.name)
def test_a_form_asks_for_what_a_maintainer_needs_to_repeat_it(path):
    fields = yaml.safe_load(path.read_text("utf-8"))["body"]
    required = [each for each in fields if each.get("validations", {}).get("required")]
    assert len(required) >= 3
    for command in re.findall(r"`toolcrib (\w+)", path.read_text("utf-8")):
        assert command in COMMANDS
