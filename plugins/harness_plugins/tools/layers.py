"""What is registered, where: tools and restrictions in scoped layers that outlive the service.

Views (what a scope sees) are kept on the layers they were made from, and dropped the moment one
of those layers changes, so nothing of a plugin that is gone stays reachable here.
"""

from __future__ import annotations

import os
import sys
import weakref
from collections.abc import Callable, Iterator
from types import CodeType
from typing import Any, Final, Literal

from harness_core import Context, Effect, Event, Fiber, NamedEntries, ScopedLayers
from harness_core.errors import DuplicateRegistrationError
from harness_core.prompt import Origin, ToolSchema

from .model import DuplicateToolError, Tool
from .turns import Turns
from .view import View

__all__ = ["Entry", "Layer", "ToolLayers"]

CHANGE: Final[Event[[], None]] = Event("system-prompt/change", vetoing=True)
"""The event of the system prompt: what the model is told has changed."""

_HERE = os.path.dirname(os.path.abspath(__file__)) + os.sep


def calling_site() -> tuple[CodeType, int]:
    """Return the place outside this package that the current call came from."""
    frame = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    while frame.f_code.co_filename.startswith(_HERE) and frame.f_back is not None:
        frame = frame.f_back
    return frame.f_code, frame.f_lasti


class Entry:
    """One registered tool or restriction: who registered it, and where.

    An entry that was taken back keeps names only: an assembly that somebody holds can still say
    whose a tool was, and keeps nobody alive.
    """

    def __init__(self, kind: Literal["tool", "restriction"], name: str, ctx: Context) -> None:
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
        return self.fiber.name if self.fiber is not None else str(self._facts()[0])

    def _facts(self) -> tuple[Any, ...]:
        if self._origin is not None:
            return self._origin
        assert self.fiber is not None
        file, line = "", 0
        if self.effect is not None:
            info = self.effect.describe()
            file, line = info.file, info.line
        return self.fiber.name, self.fiber.path, file, line

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


class Layer(NamedEntries[tuple[str, Any], Entry]):
    """The tools and restrictions of one scope."""

    def __init__(self, key: object | None) -> None:
        super().__init__(lambda name: DuplicateRegistrationError(name[0], str(name[1]), self.name))
        self.name: Literal["global", "scope"] = "global" if key is None else "scope"
        self.view: View | None = None
        self.built_on_it: weakref.WeakSet[Layer] = weakref.WeakSet()
        """The layers whose views show something of this one."""

    def tools(self) -> Iterator[ToolEntry]:
        """Yield its tools."""
        return (one for one in self.values() if isinstance(one, ToolEntry))

    def restrictions(self) -> list[RestrictionEntry]:
        """Return its restrictions."""
        return [one for one in self.values() if isinstance(one, RestrictionEntry)]

    def tool(self, name: str) -> ToolEntry | None:
        """Return the tool of a name."""
        found = self.get(("tool", name))
        return found if isinstance(found, ToolEntry) else None

    def forget_views(self) -> None:
        """Drop what was made from this layer."""
        self.view = None
        for layer in self.built_on_it:
            layer.view = None
        self.built_on_it.clear()


class ToolLayers(ScopedLayers[Layer]):
    """All tools and restrictions of one registry, and whose turn it is in each scope."""

    def __init__(self, root: Context) -> None:
        super().__init__(Layer, lambda _: root.emit(CHANGE))
        self.turns = Turns()

    def add(self, entry: Entry) -> Effect:
        """Register an entry where its context says; all or nothing.

        Raises DuplicateToolError for a name that its layer has, InactiveFiberError, and whatever a
        listener of `system-prompt/change` raises.
        """
        ctx = entry.ctx
        assert ctx is not None

        def insert(layer: Layer, place: float) -> Callable[[], None]:
            key = entry.name if entry.kind == "tool" else place
            self._refuse_duplicate(layer, entry)
            layer.add((entry.kind, key), entry, place)
            layer.forget_views()

            def undo() -> None:
                layer.remove((entry.kind, key))
                layer.forget_views()
                entry.retire()

            return undo

        effect = entry.effect = self.effect(ctx, insert, label=(entry.kind, entry.name))
        effect.site = entry.site
        return effect

    def _refuse_duplicate(self, layer: Layer, entry: Entry) -> None:
        holder = layer.tool(entry.name) if entry.kind == "tool" else None
        if holder is not None:
            origin = holder.origin()
            raise DuplicateToolError(
                entry.name,
                layer.name,
                plugin=entry.plugin,
                holder=origin.plugin,
                place=f"{origin.file}:{origin.line}",
            )

    def on_chain(self, scope: object | None) -> list[Layer]:
        """Return the layers that a scope sees, the global one first."""
        return [self.global_layer, *self.chain_layers(scope)]

    def view(self, scope: object | None) -> View:
        """Return what a scope sees: the one answer to what is visible."""
        layers = self.on_chain(scope)
        nearest = layers[-1]
        view = nearest.view
        if view is None or not view.is_of(layers):
            view = nearest.view = View(layers)
            for layer in layers[:-1]:
                layer.built_on_it.add(nearest)
        return view
