"""Registry of capabilities: files, decorators and packages in, what is required with them out."""

from __future__ import annotations

from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from toolcrib.errors import CapabilityError, QueryError
from toolcrib.router.choices import capabilities as module
from toolcrib.router.choices.capabilities import Capability, CapabilityRegistry

DATA = Path(__file__).parents[3] / "data" / "capabilities"


def made(name: str, **more) -> Capability:
    return Capability(name=name, description=f"Does {name}.", **more)


CHARTS = made("charts", requires=("numbers",))
SAFETY = made("safety", always_active=True)
FIGURES = made("figures", provides=("numbers",), requires=("login",))
CENSUS = made("census", provides=("numbers",))
LOGIN = made("login")


def test_a_file_holds_them_in_order():
    found = CapabilityRegistry.load(DATA / "capabilities.yaml")
    assert [each.name for each in found][:2] == ["figures", "charts"]
    assert len(found) == 11
    assert found["charts"].examples[0].use is True


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("- a", "be an object"),
        ("capabilities: {", "is not YAML"),
        ("capabilities: [{name: a}]", "capabilities.0.description: Field required"),
        ("capabilities: [{name: a, description: b, examples: [[x, maybe]]}]", "examples.0.use"),
        ("capabilities: [{name: a, description: b, severity: bad}]", "severity"),
        ("capabilities: [{name: a, description: b}, {name: a, description: c}]", "there are two"),
        ("capabilities: [{name: mail, description: b, requires: [mial]}]", "did you mean 'mail'?"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(tmp_path, text, told):
    file = tmp_path / "capabilities.yaml"
    file.write_text(text)
    with pytest.raises(CapabilityError) as caught:
        CapabilityRegistry.load(file)
    assert told in str(caught.value)


def test_a_file_that_is_not_there_and_a_name_that_is_unknown(tmp_path):
    with pytest.raises(CapabilityError, match="cannot read"):
        CapabilityRegistry.load(tmp_path / "gone.yaml")
    with pytest.raises(CapabilityError, match=r"'logi'.*'login'"):
        _ = CapabilityRegistry([LOGIN])["logi"]


def test_a_decorator_takes_name_and_description_of_what_it_decorates():
    found = CapabilityRegistry()

    @found.capability(examples=[("plot it", True, "asks for a plot")], severity="critical")
    def charts() -> str:
        """Draws charts."""
        return "drawn"

    assert found["charts"].description == "Draws charts."
    assert found["charts"].examples[0].query == "plot it"
    assert found["charts"].severity == "critical"
    assert found.work["charts"]() == charts() == "drawn"
    with pytest.raises(CapabilityError, match="description"):
        found.capability("silent")(lambda: None)
    with pytest.raises(QueryError, match=r"write `@registry.capability\(\)`"):
        found.capability(charts)


def test_packages_name_theirs_by_entry_points(monkeypatch):
    place = f"{__name__}:"
    points = [
        EntryPoint(name, place + name, module.ENTRY_POINT_GROUP) for name in ("LOGIN", "BOTH")
    ]
    monkeypatch.setattr(module, "entry_points", lambda group: points)
    assert [each.name for each in CapabilityRegistry.of_packages()] == ["login", "charts", "census"]
    for name in ("gone", "DATA"):
        points[:] = [EntryPoint(name, place + name, module.ENTRY_POINT_GROUP)]
        with pytest.raises(CapabilityError, match=f"{place}{name}"):
            CapabilityRegistry.of_packages()


BOTH = (CHARTS, CapabilityRegistry([CENSUS]))


@pytest.mark.parametrize(
    ("names", "found"),
    [
        ([], ()),
        (["login"], ("login",)),
        (["charts"], ("charts", "figures", "login")),
        (["charts", "census"], ("charts", "census")),
        (["login", "safety"], ("safety", "login")),
    ],
)
def test_what_is_required_comes_with_it_the_always_active_first(names, found):
    registry = CapabilityRegistry([CHARTS, FIGURES, CENSUS, LOGIN, SAFETY])
    assert registry.with_required(names) == found


def test_a_circle_of_requirements_ends():
    registry = CapabilityRegistry([made("a", requires=("b",)), made("b", requires=("a",))])
    assert registry.with_required(["b"]) == ("a", "b")
