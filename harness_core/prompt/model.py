"""What goes into an assembly and what comes out: the records of section 5 of the contract.

Listeners work on plain lists, a plain dict and mutable records; tool schemas are frozen. Where a
part came from (`origin`) rides along, takes no part in equality, and is made only when it is read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .origin import Explained, Origin, OriginSource
from .tool import ToolSchema

if TYPE_CHECKING:
    from .texts import Texts
    from .trace import Trace

__all__ = ["AssembleContext", "AssembledContext", "AssembledSection", "PromptAssembly"]


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


class AssembleContext:
    """What one assembly is for: its scope, its signal, and fields that plugins define.

        AssembleContext(scope=agent, model="m-1").model

    `signal` is an anyio cancel scope that belongs to one assembly: a context that is kept reads
    it as None afterwards.
    """

    def __init__(self, scope: object | None = None, signal: Any = None, **fields: Any) -> None:
        self.scope = scope
        self.signal = signal
        if fields:
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
        if self.trace is not None:
            return self.trace.explain(self)
        # Made by hand, and not by `assemble`: nothing is known but what is there.
        return [
            *(Explained("section", item.name, "included") for item in self.sections),
            *(Explained("context", item.name, "included") for item in self.contexts),
            *(Explained("variable", name, "included") for name in self.variables),
            *(Explained("tool", tool.name, "included") for tool in self.tools),
        ]

    @property
    def callable_tools(self) -> frozenset[str]:
        """The names of the tools that can be called: those shown, and those called through them."""
        if self.trace is not None:
            return frozenset(self.trace.callable_tools(self))
        return frozenset(tool.name for tool in self.tools)

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
