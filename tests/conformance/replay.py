"""Replays the operations of a case on harness_core, and answers in the corpus' JSON shape."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, ClassVar

import attrs

from harness_core import Context, Effect, Fiber, create_scope
from harness_core.prompt import SystemPrompt

from .contributions import REGISTRATIONS, Flavour, Key
from .corpus import Json, Op
from .facts import NothingThereError, describe_assembly, describe_error

__all__ = ["Replay", "replay_case"]

CHANGE = "system-prompt/change"

CONFIG_FIELDS = {
    "includeHarnessIdentity": "include_harness_identity",
    "includeRuntimeContext": "include_runtime_context",
    "persona": "persona",
    "toolOrder": "tool_order",
}


async def replay_case(ops: list[Op], flavour: Flavour = "plain") -> list[Json]:
    """Perform the operations in order on a fresh tree, and return their answers."""
    async with Context() as root:
        replay = Replay(root, flavour)
        return [await replay.perform(op) for op in ops]


@attrs.frozen(eq=False)
class MintedScope:
    """A scope, and the context that registers in it."""

    key: Key
    ctx: Context
    dispose: Callable[[], Awaitable[Any]]


class Replay:
    """One tree, and what the operations of one case have named in it."""

    def __init__(self, root: Context, flavour: Flavour = "plain") -> None:
        self.root = root
        self.flavour: Flavour = flavour
        self.host: Context | None = None
        self.changes = 0
        self.scopes: dict[str, MintedScope] = {}
        self.plugins: dict[str, Fiber] = {}
        self.handles: dict[str, Effect] = {}
        root.on(CHANGE, self._count_change)

    def _count_change(self, *_args: object) -> None:
        self.changes += 1

    async def perform(self, op: Op) -> Json:
        """Perform one operation and return its answer, an error's facts included."""
        try:
            if op["op"] in REGISTRATIONS:
                return self._register(self._context_of(op), op)
            return await self._operations[op["op"]](self, op)
        except Exception as error:
            return {"error": describe_error(error)}

    def _context_of(self, op: Op) -> Context:
        if "scope" in op:
            return self.scopes[op["scope"]].ctx
        if "parent" in op:
            context: Context = self._fiber(op["parent"]).ctx
            return context
        return self.root

    def _fiber(self, plugin: str) -> Fiber:
        if plugin not in self.plugins:
            raise NothingThereError(plugin)
        return self.plugins[plugin]

    def _register(self, ctx: Context, op: Op) -> None:
        effect = REGISTRATIONS[op["op"]](ctx, op, self.flavour)
        if "handle" in op:
            self.handles[op["handle"]] = effect

    async def _mount(self, op: Op) -> None:
        config = {CONFIG_FIELDS[name]: value for name, value in op.get("config", {}).items()}
        await self.root.plugin(SystemPrompt, config)
        if self.host is None:
            self.host = (await self.root.plugin(_Body("host", lambda _ctx: None))).ctx

    async def _scope(self, op: Op) -> None:
        assert self.host is not None, "a case mints scopes only after a mount that succeeded"
        key = Key(op["id"])
        parent = self.scopes[op["parent"]].key if "parent" in op else None
        scope = create_scope(self.host, key, parent=parent)
        self.scopes[key.id] = MintedScope(key, scope.ctx, scope.dispose)

    async def _dispose_scope(self, op: Op) -> None:
        await self.scopes[op["id"]].dispose()

    async def _plugin(self, op: Op) -> Json:
        def register_all(ctx: Context) -> None:
            for reg in op["regs"]:
                self._register(ctx, reg)

        fiber = self._context_of(op).plugin(_body(op["id"], register_all, self.flavour))
        self.plugins[op["id"]] = fiber
        try:
            await fiber
        except Exception as error:
            await fiber.dispose()
            return {"error": describe_error(error)}
        return None

    async def _dispose_plugin(self, op: Op) -> None:
        await self._fiber(op["id"]).dispose()

    async def _undo(self, op: Op) -> None:
        effect = self.handles.get(op["handle"])  # a refused registration left none
        if effect is not None:
            await effect()

    async def _change_count(self, _op: Op) -> int:
        count, self.changes = self.changes, 0
        return count

    async def _assemble(self, op: Op) -> Json:
        scope = self.scopes[op["scope"]].key if "scope" in op else None
        return describe_assembly(await self.root.system_prompt.assemble(scope=scope))

    _operations: ClassVar[dict[str, Callable[[Replay, Op], Awaitable[Json]]]] = {
        "mount": _mount,
        "scope": _scope,
        "dispose_scope": _dispose_scope,
        "plugin": _plugin,
        "dispose_plugin": _dispose_plugin,
        "undo": _undo,
        "change_count": _change_count,
        "assemble": _assemble,
    }


class _Body:
    """A plugin object that injects the system prompt; its `apply` is the given function."""

    inject = ("system_prompt",)

    def __init__(self, name: str, apply: Callable[[Context], Any]) -> None:
        self.name = name
        self.apply = apply


def _body(name: str, register: Callable[[Context], None], flavour: Flavour) -> _Body:
    if flavour != "awaited":
        return _Body(name, register)

    async def awaited(ctx: Context) -> None:
        register(ctx)

    return _Body(name, awaited)
