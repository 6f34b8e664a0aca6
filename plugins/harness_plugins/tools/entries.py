"""What is registered: tools, restrictions and presentations, who did it, and where."""

from __future__ import annotations

import os
import sys
import weakref
from collections.abc import Callable
from types import CodeType
from typing import Any, Literal

from harness_core import Context, Effect, Fiber
from harness_core.prompt import Origin, ToolSchema

from .model import Tool
from .presentation import Mode

__all__ = ["Entry", "PresentationEntry", "RestrictionEntry", "ToolEntry"]

Kind = Literal["tool", "restriction", "presentation"]

_HERE = os.path.dirname(os.path.abspath(__file__)) + os.sep


def calling_site() -> tuple[CodeType, int]:
    """Return the place outside this package that the current call came from."""
    frame = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    while frame.f_code.co_filename.startswith(_HERE) and frame.f_back is not None:
        frame = frame.f_back
    return frame.f_code, frame.f_lasti


class Entry:
    """One registered tool, restriction or presentation: who registered it, and where.

    An entry that was taken back keeps names only: an assembly that somebody holds can still say
    whose a tool was, and keeps nobody alive.
    """

    def __init__(self, kind: Kind, name: str, ctx: Context) -> None:
        self.kind = kind
        self.name = name
        self.ctx: Context | None = ctx
        self.fiber: Fiber | None = ctx.fiber
        self.effect: Effect | None = None
        self.site = calling_site()
        self._scope: Callable[[], object | None] = lambda: ctx.tag
        self._origin: tuple[Any, ...] | None = None

    @property
    def entry(self) -> Entry:
        """Itself, the source of what the prompt shows."""
        return self

    @property
    def scope(self) -> object | None:
        """The key of the layer; None for the global one, and for a scope that is gone."""
        return self._scope()

    @property
    def plugin(self) -> str:
        """The name of the plugin that registered it."""
        return self.fiber.plugin_name if self.fiber is not None else str(self._facts()[0])

    def _facts(self) -> tuple[Any, ...]:
        if self._origin is not None:
            return self._origin
        assert self.fiber is not None
        file, line = "", 0
        if self.effect is not None:
            info = self.effect.describe()
            file, line = info.file, info.line
        return self.fiber.plugin_name, self.fiber.path, file, line

    def origin(self, seconds: float | None = None) -> Origin:
        """Return where it was registered."""
        plugin, fiber, file, line = self._facts()
        return Origin(
            self.kind, self.name, plugin, fiber, self.scope, None, file, line, (), seconds
        )

    def retire(self) -> None:
        """Keep only names."""
        self._origin = self._facts()
        scope = self.scope
        if scope is not None:
            try:
                self._scope = weakref.ref(scope)
            except TypeError:
                self._scope = lambda: scope
        else:
            self._scope = lambda: None
        self.ctx = self.fiber = self.effect = None


class ToolEntry(Entry):
    """A registered tool, with the one schema object that every assembly shows."""

    def __init__(self, tool: Tool, ctx: Context) -> None:
        super().__init__("tool", tool.name, ctx)
        self.take(tool)

    def take(self, tool: Tool) -> None:
        """Hold this tool from now on."""
        self.tool = tool
        self.schema = ToolSchema(tool.name, tool.description, tool.parameters, source=self)

    def retire(self) -> None:
        super().retire()
        del self.tool, self.schema


class RestrictionEntry(Entry):
    """A registered restriction of what its scope inherits."""

    def __init__(self, allow: frozenset[str] | None, deny: frozenset[str], ctx: Context) -> None:
        said = [] if allow is None else [f"allow {', '.join(sorted(allow)) or 'nothing'}"]
        said += [f"deny {', '.join(sorted(deny)) or 'nothing'}"] if deny or allow is None else []
        super().__init__("restriction", "; ".join(said), ctx)
        self.allow = allow
        self.deny = deny

    def lets(self, name: str) -> bool:
        """Whether an inherited tool of this name passes."""
        return name not in self.deny and (self.allow is None or name in self.allow)


class PresentationEntry(Entry):
    """A registered presentation of the tools of its scope, and of those below."""

    def __init__(self, mode: Mode, ctx: Context) -> None:
        super().__init__("presentation", mode, ctx)
        self.mode: Mode = mode
