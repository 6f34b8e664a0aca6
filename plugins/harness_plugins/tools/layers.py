"""What is registered, where: tools, restrictions and presentations, in layers by scope.

The layers outlive the service.
Views (what a scope sees) are kept on the layers they were made from, and dropped the moment one
of those layers changes, so nothing of a plugin that is gone stays reachable here.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from typing import Any, Literal, NamedTuple

from harness_core import Context, Effect, NamedEntries, ScopedLayers
from harness_core.errors import DuplicateRegistrationError, PluginError
from harness_core.prompt import CHANGE

from .entries import Entry, PresentationEntry, RestrictionEntry, ToolEntry
from .errors import DuplicatePresentationError, DuplicateToolError
from .model import Tool
from .turns import Turns
from .view import View

__all__ = ["Layer", "ToolLayers"]

MOST_KNOWN = 10_000
"""Scopes whose keys cannot tell when they go, such as strings, and whose views are kept by them."""


class Layer(NamedEntries[tuple[str, Any], Entry]):
    """The tools, restrictions and presentation of one scope."""

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

    def presentation(self) -> PresentationEntry | None:
        """Return how its tools are presented, as far as somebody said so here."""
        found = self.get(("presentation", ""))
        return found if isinstance(found, PresentationEntry) else None

    def forget_views(self) -> None:
        """Drop what was made from this layer."""
        self.view = None
        for layer in self.built_on_it:
            layer.view = None
        self.built_on_it.clear()


class ToolLayers(ScopedLayers[Layer]):
    """All that one registry holds, and whose turn it is in each scope."""

    def __init__(self, root: Context) -> None:
        super().__init__(Layer, lambda _: root.emit(CHANGE))
        self.turns = Turns()
        self._known: dict[int, _Known] = {}
        """Views by the identity of a scope: those that were asked for since the last change."""

    def _forget_views(self, layer: Layer) -> None:
        layer.forget_views()
        self._known.clear()

    def add(self, entry: Entry) -> Effect:
        """Register an entry where its context says; all or nothing.

        Raises DuplicateToolError or DuplicatePresentationError for what its layer has already,
        InactiveFiberError, and whatever a listener of `system-prompt/change` raises.
        """
        ctx = entry.ctx
        assert ctx is not None

        def insert(layer: Layer, place: float) -> Callable[[], None]:
            keys = {"tool": entry.name, "restriction": place, "presentation": ""}
            key = (entry.kind, keys[entry.kind])
            if not layer.is_free(key, place):
                self._refuse_duplicate(layer, entry)
            layer.add(key, entry, place)
            self._forget_views(layer)

            def undo() -> None:
                layer.remove(key, entry)
                self._forget_views(layer)
                entry.retire()

            return undo

        effect = entry.effect = self.effect(
            ctx, insert, label=(entry.kind, entry.name), site=entry.site
        )
        return effect

    def replace(self, ctx: Context, effect: Effect, tool: Tool) -> None:
        """Put a tool in the place of the one that an effect stands for; all or nothing.

        Raises PluginError if that effect is not of a tool of this name, here, InactiveFiberError,
        and whatever a listener of `system-prompt/change` raises.
        """
        ctx.fiber.check_open()
        layer = self.peek(ctx.tag)
        entry = layer.tool(tool.name) if layer is not None else None
        if layer is None or entry is None or entry.effect is not effect:
            raise PluginError(
                f'"{tool.name}" cannot be replaced: expected the effect that its registration '
                "returned, not undone yet, and a context of the same scope"
            )
        before = entry.tool, entry.schema
        entry.take(tool)
        self._forget_views(layer)
        try:
            ctx.root.emit(CHANGE)
        except BaseException:
            if layer.tool(tool.name) is entry and entry.tool is tool:
                entry.tool, entry.schema = before
                self._forget_views(layer)
            raise

    def _refuse_duplicate(self, layer: Layer, entry: Entry) -> None:
        is_tool = entry.kind == "tool"
        holder = layer.tool(entry.name) if is_tool else layer.presentation()
        assert holder is not None
        origin = holder.origin()
        refuse = DuplicateToolError if is_tool else DuplicatePresentationError
        raise refuse(
            holder.name,
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
        known = self._known.get(id(scope))
        version = self.links_version()
        if known is not None and known.version == version:
            return known.view
        layers = self.on_chain(scope)
        nearest = layers[-1]
        view = nearest.view
        if view is None or not view.is_of(layers):
            view = nearest.view = View(layers)
            for layer in layers[:-1]:
                layer.built_on_it.add(nearest)
        self._note(scope, view, version)
        return view

    def _note(self, scope: object | None, view: View, version: int) -> None:
        identity, known = id(scope), self._known
        if scope is None or isinstance(scope, str | int):
            if len(known) < MOST_KNOWN:
                known[identity] = _Known(scope, version, view)
            return
        try:
            key = weakref.ref(scope, lambda _: known.pop(identity, None))
        except TypeError:
            return  # it could be something large, and nobody tells when it goes
        known[identity] = _Known(key, version, view)


class _Known(NamedTuple):
    """The view of a scope: right while the scope lives and no link of scopes has changed.

    `key` keeps the scope alive, so that its identity is not used again, or notices when it goes.
    """

    key: object
    version: int
    view: View
