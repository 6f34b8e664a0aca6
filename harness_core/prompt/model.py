"""What goes into an assembly and what comes out: the records of section 5 of the contract.

Listeners work on plain lists, a plain dict and mutable records; tool schemas are frozen. Where a
part came from (`origin`) rides along, takes no part in equality, and is made only when it is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Protocol, cast

import attrs

from ..errors import ContributionError, InvalidSchemaError, safe_repr
from .frozen import EMPTY_PARAMETERS, freeze

if TYPE_CHECKING:
    from .diff import AssemblyDiff
    from .explain import Explained
    from .texts import Texts
    from .trace import Trace

__all__ = [
    "AssembleContext",
    "AssembledContext",
    "AssembledSection",
    "Origin",
    "PromptAssembly",
    "ToolProviderResult",
    "ToolSchema",
]


@attrs.frozen
class Origin:
    """Where a part of an assembly came from.

    `scope` is the key of the layer (None: global), `shadows` the origins it stands in front of,
    nearest first, `seconds` how long its provider took (None: there is none; for a tool: when the
    provider first gave this schema).
    """

    kind: str
    name: str
    plugin: str
    fiber: str
    scope: object | None
    order: float | None
    file: str
    line: int
    shadows: tuple[Origin, ...] = ()
    seconds: float | None = None

    def __str__(self) -> str:
        return f'plugin "{self.plugin}" at {self.file}:{self.line}'


class OriginSource(Protocol):
    """What can tell an origin: a registry entry."""

    @property
    def entry(self) -> object:
        """The registry entry."""
        ...

    def origin(self, seconds: float | None = None) -> Origin:
        """Return the origin, with the time its provider took."""
        ...


class Timed:
    """A source whose provider was called, with the time that took."""

    __slots__ = ("seconds", "source")

    def __init__(self, source: OriginSource, seconds: float | None) -> None:
        self.source = source
        self.seconds = seconds

    @property
    def entry(self) -> object:
        """The registry entry."""
        return self.source.entry

    def origin(self, seconds: float | None = None) -> Origin:
        """Return the origin, with the time its provider took."""
        return self.source.origin(self.seconds if seconds is None else seconds)


class _Text:
    """A named text of an assembly: what sections and contexts have in common."""

    __slots__ = ("_source", "literal", "name", "text")

    def __init__(
        self,
        name: str,
        text: str,
        literal: bool = False,
        _source: OriginSource | None = None,
    ) -> None:
        self.name = name
        self.text = text
        self.literal = literal
        self._source = _source

    @property
    def origin(self) -> Origin | None:
        """Who registered it; None for what a listener added."""
        return self._source.origin() if self._source is not None else None

    @property
    def entry(self) -> Any:
        """The registry entry it was made from; None for what a listener added."""
        return self._source.entry if self._source is not None else None

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return (self.name, self.text, self.literal) == (other.name, other.text, other.literal)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        literal = ", literal=True" if self.literal else ""
        return f"{type(self).__name__}({self.name!r}, {self.text!r}{literal})"


class AssembledSection(_Text):
    """One block of the system prompt. With `literal`, its text is data and never scanned."""

    __slots__ = ()


class AssembledContext(_Text):
    """One block of the runtime-context snapshot. With `literal`, its text is data."""

    __slots__ = ()


def _as_parameters(value: Any) -> Mapping[str, Any]:
    return EMPTY_PARAMETERS if value is None else value


@attrs.frozen
class ToolSchema:
    """A tool as the model is told of it: `parameters` is a JSON schema, made read-only here.

    The parameters equal, and serialise like, the plain dicts and lists they came from, which are
    never kept. To change a tool, replace it: `attrs.evolve(tool, description=...)`. Raises
    InvalidSchemaError for what JSON cannot carry.
    """

    name: str
    description: str = ""
    parameters: Mapping[str, Any] = attrs.field(default=None, converter=_as_parameters)
    _source: OriginSource | None = attrs.field(default=None, eq=False, repr=False, alias="_source")

    def __attrs_post_init__(self) -> None:
        if not isinstance(self.name, str) or not isinstance(self.description, str):
            raise ContributionError(
                f"a tool schema needs name and description as str, got {self.name!r} and "
                f"{self.description!r}"
            )
        given: object = self.parameters
        if not isinstance(given, Mapping):
            problem = f"expected a JSON object, got {safe_repr(given)} ({type(given).__name__})"
            raise InvalidSchemaError(self.name, "parameters", problem)
        object.__setattr__(self, "parameters", freeze(given, self.name))

    @property
    def origin(self) -> Origin | None:
        """Whose provider gave it; None for what a listener added."""
        return self._source.origin() if self._source is not None else None

    @classmethod
    def of(cls, schema: Any) -> ToolSchema:
        """Return a schema given as a ToolSchema or as a mapping with the same keys."""
        if isinstance(schema, ToolSchema):
            return schema
        if not isinstance(schema, Mapping):
            raise ContributionError(
                f"expected a ToolSchema or a mapping, got {schema!r} ({type(schema).__name__})"
            )
        given = cast("Mapping[str, Any]", schema)
        if "name" not in given or not given.keys() <= {"name", "description", "parameters"}:
            raise ContributionError(
                "a tool schema has the keys name, description and parameters, got "
                f"{sorted(map(str, given))}"
            )
        return cls(**given)


@attrs.frozen
class ToolProviderResult:
    """What a tool provider returns: the visible schemas, and all names before restriction.

    `known_names` defaults to the names of `schemas`; `tool_order` is checked against it.
    """

    schemas: Iterable[Any]
    known_names: Iterable[str] | None = None


class AssembleContext:
    """What one assembly is for: its scope, its signal, and fields that plugins define.

        AssembleContext(scope=agent, model="m-1").model

    `signal` is an anyio cancel scope that belongs to one assembly: a context that is kept reads
    it as None afterwards.
    """

    def __init__(self, scope: object | None = None, signal: Any = None, **fields: Any) -> None:
        self.scope = scope
        self.signal = signal
        self.__dict__.update(fields)

    @property
    def fields(self) -> dict[str, Any]:
        """The plugin-defined fields."""
        return {k: v for k, v in self.__dict__.items() if k not in ("scope", "signal")}

    def __getattr__(self, name: str) -> Any:
        known = ", ".join(sorted(self.__dict__))
        raise AttributeError(f"this assembly has no field {name!r}; it has: {known}")

    def __repr__(self) -> str:
        inside = ", ".join(f"{name}={value!r}" for name, value in self.__dict__.items())
        return f"AssembleContext({inside})"


class PromptAssembly:
    """The model's input before a step, apart from the history. Lists and dict are plain."""

    __slots__ = (
        "_contexts",
        "_sections",
        "tools",
        "trace",
        "untouched_contexts",
        "untouched_sections",
        "variables",
    )

    def __init__(
        self,
        sections: list[AssembledSection] | None = None,
        contexts: list[AssembledContext] | None = None,
        tools: list[ToolSchema] | None = None,
        variables: dict[str, str | None] | None = None,
    ) -> None:
        self._sections = [] if sections is None else sections
        self._contexts = [] if contexts is None else contexts
        self.tools = [] if tools is None else tools
        self.variables = {} if variables is None else variables
        self.untouched_sections: Texts | None = None
        """The evaluated texts, until somebody asks for `sections`: then None."""
        self.untouched_contexts: Texts | None = None
        self.trace: Trace | None = None
        """How it came about; None for one made by hand."""

    @property
    def sections(self) -> list[AssembledSection]:
        """The blocks of the system prompt, in order."""
        untouched = self.untouched_sections
        if untouched is not None:
            self._sections = untouched.records(AssembledSection)
            self.untouched_sections = None
        return self._sections

    @sections.setter
    def sections(self, sections: list[AssembledSection]) -> None:
        self._sections = sections
        self.untouched_sections = None

    @property
    def contexts(self) -> list[AssembledContext]:
        """The blocks of the runtime-context snapshot, in order."""
        untouched = self.untouched_contexts
        if untouched is not None:
            self._contexts = untouched.records(AssembledContext)
            self.untouched_contexts = None
        return self._contexts

    @contexts.setter
    def contexts(self, contexts: list[AssembledContext]) -> None:
        self._contexts = contexts
        self.untouched_contexts = None

    def copy(self) -> PromptAssembly:
        """Return an assembly with lists and a dict of its own, of the same records."""
        copied = PromptAssembly(
            self._sections[:], self._contexts[:], self.tools[:], self.variables.copy()
        )
        copied.untouched_sections = self.untouched_sections
        copied.untouched_contexts = self.untouched_contexts
        copied.trace = self.trace
        return copied

    def explain(self) -> list[Explained]:
        """Return every contribution, in order, and those that are absent, with the reason."""
        from .explain import explain

        return explain(self)

    def diff(self, other: PromptAssembly) -> AssemblyDiff:
        """Return what changed from this assembly to `other`; see `diff_assemblies`."""
        from .diff import diff_assemblies

        return diff_assemblies(self, other)

    @property
    def variable_origins(self) -> dict[str, Origin]:
        """Who registered each variable; those that a listener set are not among them."""
        return self.trace.variable_origins() if self.trace is not None else {}

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PromptAssembly):
            return NotImplemented
        return (self.sections, self.contexts, self.tools, self.variables) == (
            other.sections,
            other.contexts,
            other.tools,
            other.variables,
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return (
            f"PromptAssembly(sections={self.sections!r}, contexts={self.contexts!r}, "
            f"tools={self.tools!r}, variables={self.variables!r})"
        )
