"""Registry of capabilities: from a file, by a decorator, or from installed packages."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib.metadata import entry_points
from pathlib import Path
from typing import Annotated, Any, TypeVar, cast

import yaml
from pydantic import (
    BaseModel,
    ConfigDict,
    StrictBool,
    StringConstraints,
    ValidationError,
    model_validator,
)

from toolcrib.errors import CapabilityError, did_you_mean, nearest
from toolcrib.records.codec import in_words
from toolcrib.router.recovery import ErrorClass

__all__ = ["ENTRY_POINTS", "Capability", "CapabilityRegistry"]

ENTRY_POINTS = "toolcrib.capabilities"
"""The group in which packages name theirs: a capability, a registry, or several of either."""

_Filled = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
_Work = TypeVar("_Work", bound=Callable[..., Any])


class CapabilityExample(BaseModel):
    """A request, whether it needs the capability, and why; also written `[query, use, reason]`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    query: _Filled
    use: StrictBool
    reason: str = ""

    @model_validator(mode="before")
    @classmethod
    def _of_list(cls, given: Any) -> Any:
        if isinstance(given, list | tuple):
            return dict(zip(cls.model_fields, cast("Iterable[Any]", given), strict=False))
        return given


class Capability(BaseModel):
    """Something that an agent can switch on for a turn.

    `description`: what it does, for whoever selects. `instructions`: for the agent once it is
    active. `requires` names other capabilities, or what they provide: they are active with it.
    One that is `always_active` is not asked for. `severity`: the class of its errors, for
    `RecoveryPolicy.next_step`.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: _Filled
    description: _Filled
    instructions: str = ""
    examples: tuple[CapabilityExample, ...] = ()
    requires: tuple[str, ...] = ()
    provides: tuple[str, ...] = ()
    always_active: bool = False
    severity: ErrorClass | None = None

    @property
    def texts(self) -> tuple[str, ...]:
        """Everything that says what it is for."""
        name = self.name.replace("_", " ").replace("-", " ")
        asked = (each.query for each in self.examples if each.use)
        return (name, self.description, f"{name}: {self.description}", *asked)


class CapabilityRegistry:
    """Capabilities in their order, by name."""

    def __init__(self, capabilities: Iterable[Capability] = ()) -> None:
        self._known: dict[str, Capability] = {}
        self.work: dict[str, Callable[..., Any]] = {}
        """What was decorated, by the capability's name."""
        self.add(*capabilities)

    @classmethod
    def load(cls, file: str | Path) -> CapabilityRegistry:
        """Those of a YAML or JSON file: a list under `capabilities`.

        Raises:
            CapabilityError: it cannot be read, or something in it is wrong.
        """
        try:
            found: Any = yaml.safe_load(Path(file).read_text(encoding="utf-8"))
        except OSError as error:
            raise CapabilityError(f"{file}: cannot be read: {error.strerror}") from error
        except (yaml.YAMLError, UnicodeDecodeError) as error:
            raise CapabilityError(f"{file}: is not YAML: {error}") from error
        listed = cast("Any", found).get("capabilities") if isinstance(found, Mapping) else None
        if not isinstance(listed, list):
            raise CapabilityError(f"{file}: must hold a list under `capabilities`")
        made = cls()
        for place, each in enumerate(cast("list[Any]", listed)):
            made.add(_capability(f"{file}: capabilities.{place}", each))
        made.check()
        return made

    @classmethod
    def installed(cls) -> CapabilityRegistry:
        """Those of installed packages, by their entry points in `toolcrib.capabilities`.

        Raises:
            CapabilityError: one of them cannot be loaded, or is something else.
        """
        made = cls()
        for point in entry_points(group=ENTRY_POINTS):
            try:
                loaded = point.load()
            except Exception as error:
                raise CapabilityError(f"{point.value}: cannot be loaded: {error}") from error
            made.add(*_all_of(loaded, point.value))
        return made

    @classmethod
    def of(cls, source: str | Path | CapabilityRegistry | None) -> CapabilityRegistry:
        """Those of a file; a registry as it is; None: those of installed packages."""
        if isinstance(source, CapabilityRegistry):
            return source
        return cls.installed() if source is None else cls.load(source)

    def add(self, *capabilities: Capability) -> None:
        """Put capabilities behind those that are there.

        Raises:
            CapabilityError: there is one of this name.
        """
        for each in capabilities:
            if each.name in self._known:
                raise CapabilityError(f"there are two capabilities {each.name!r}")
            self._known[each.name] = each

    def capability(self, name: str = "", **said: Any) -> Callable[[_Work], _Work]:
        """Decorate what does the work: its name and docstring stand for those not given."""

        def register(work: _Work) -> _Work:
            about = said.get("description") or (work.__doc__ or "").strip()
            named = name or getattr(work, "__name__", "")
            self.add(_capability(named, {**said, "name": named, "description": about}))
            self.work[named] = work
            return work

        return register

    def check(self) -> None:
        """See that everything required is there.

        Raises:
            CapabilityError: something is not.
        """
        known = [*self._known, *(what for each in self for what in each.provides)]
        for each in self:
            for what in each.requires:
                if what not in known:
                    near = did_you_mean(nearest(what, known))
                    raise CapabilityError(f"{each.name}: nothing provides {what!r}{near}")

    def __iter__(self) -> Iterator[Capability]:
        return iter(self._known.values())

    def __len__(self) -> int:
        return len(self._known)

    def __getitem__(self, name: str) -> Capability:
        if name not in self._known:
            near = did_you_mean(nearest(name, self._known))
            raise CapabilityError(f"there is no capability {name!r}{near}")
        return self._known[name]

    def with_required(self, names: Iterable[str]) -> tuple[str, ...]:
        """These and all that they require: the always active first, then in the registry's order.

        What several provide comes from one that is active, else from the first.
        """
        names = tuple(names)
        active = set(names)
        open_ = [self[name] for name in dict.fromkeys(names)]
        while open_:
            for what in open_.pop().requires:
                giving = [each.name for each in self if what in (each.name, *each.provides)]
                if giving and active.isdisjoint(giving):
                    active.add(giving[0])
                    open_.append(self[giving[0]])
        chosen = [each for each in self if each.name in active]
        return tuple(each.name for each in sorted(chosen, key=lambda each: not each.always_active))


def _capability(where: str, said: Any) -> Capability:
    try:
        return Capability.model_validate(said)
    except ValidationError as error:
        raise CapabilityError(f"{where}: {in_words(error, 'the capability')}") from error


def _all_of(loaded: Any, where: str) -> Iterator[Capability]:
    if isinstance(loaded, Capability):
        yield loaded
    elif isinstance(loaded, Iterable):
        for each in cast("Iterable[Any]", loaded):
            yield from _all_of(each, where)
    else:
        raise CapabilityError(f"{where}: is no capability, and holds none")
