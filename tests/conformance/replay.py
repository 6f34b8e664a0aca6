"""Replays recorded operations on harness_core and answers in the corpus' JSON shape.

There is more than one way to write down a case; the answers may not depend on it, so there are
flavours. `plain` has synchronous providers and bodies, and schemas as mappings; `awaited` has
coroutine functions, and schemas as records made anew each time; `fixed` has what never changes as
a value instead of a provider, and schemas as records made once.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Awaitable, Callable
from typing import Any, ClassVar, Literal, TypeAlias

import attrs

from harness_core import Context, Effect, Fiber, create_scope
from harness_core.errors import (
    ConfigError,
    DuplicateRegistrationError,
    InactiveFiberError,
    InvalidNameError,
    InvalidOrderError,
    MalformedReferenceError,
    MissingVariableError,
    MultipleCompleteSectionsError,
    PromptRenderError,
    ServiceConflictError,
    ToolOrderError,
    UnknownVariableError,
)
from harness_core.prompt import (
    AssembleContext,
    AssembledContext,
    AssembledSection,
    PromptAssembly,
    SystemPrompt,
    ToolProviderResult,
    ToolSchema,
    render_context_snapshot,
    render_prompt,
)

from .corpus import Json, Op

__all__ = ["FLAVOURS", "Flavour", "Replay", "replay_case"]

Flavour: TypeAlias = Literal["plain", "awaited", "fixed"]
Next: TypeAlias = Callable[[], Awaitable[PromptAssembly]]
Listener: TypeAlias = Callable[[PromptAssembly, AssembleContext, Next], Awaitable[PromptAssembly]]

FLAVOURS: tuple[Flavour, ...] = ("plain", "awaited", "fixed")

ASSEMBLE = "system-prompt/assemble"
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


class ListenerError(Exception):
    """What a listener of the behaviour `throw` raises."""


class NothingThereError(LookupError):
    """An operation on a plugin whose mount was refused, so that there is none."""


@attrs.frozen(eq=False)
class Key:
    """A scope key that knows the id its case calls it by."""

    id: str


@attrs.frozen(eq=False)
class MintedScope:
    """A scope, and the context that registers in it."""

    key: Key
    ctx: Context
    dispose: Callable[[], Awaitable[Any]]


# ---- errors --------------------------------------------------------------------------------------


def describe_error(error: Exception) -> Json:
    """Turn an error into the corpus' facts; one that has no kind there shows what it is."""
    for kind, facts in FACTS:
        if isinstance(error, kind):
            return facts(error)
    return {"kind": "unclassified", "type": type(error).__name__, "message": str(error)}


def _tool_order_facts(error: ToolOrderError) -> Json:
    facts: dict[str, Json] = {"kind": error.rule}
    if error.rule == "tool-order-duplicate":
        facts["name"] = error.names[0]
    if error.rule == "unknown-tools-in-order":
        facts |= {"names": list(error.names), "known": list(error.known)}
    return facts


def _unknown_variable_facts(error: UnknownVariableError) -> Json:
    reference = {"kind": "unknown-variable", "reference": error.reference}
    return reference | _owner(error) | {"known": list(error.known)}


def _missing_variable_facts(error: MissingVariableError) -> Json:
    return {"kind": "missing-variable", "reference": error.reference} | _owner(error)


def _owner(error: PromptRenderError) -> dict[str, str]:
    return {"owner_kind": error.owner_kind, "owner_name": error.owner_name}


# Each row answers for the type beside it and what derives from it; the first that fits counts.
FACTS: list[tuple[type[Exception], Callable[[Any], Json]]] = [
    (ListenerError, lambda error: {"kind": "listener-raised", "message": str(error)}),
    (NothingThereError, lambda _error: {"kind": "nothing-there"}),
    (
        DuplicateRegistrationError,
        lambda error: {
            "kind": "duplicate",
            "of": error.of,
            "name": error.name,
            "layer": error.layer,
        },
    ),
    (
        InvalidOrderError,
        lambda error: {"kind": "non-finite-order", "of": error.of, "name": error.name},
    ),
    (InvalidNameError, lambda error: {"kind": "invalid-variable-name", "name": error.name}),
    (InactiveFiberError, lambda _error: {"kind": "inactive"}),
    (ServiceConflictError, lambda _error: {"kind": "service-conflict"}),
    (ToolOrderError, _tool_order_facts),
    (ConfigError, lambda _error: {"kind": "invalid-config"}),
    (
        MultipleCompleteSectionsError,
        lambda error: {"kind": "multiple-complete", "names": list(error.names)},
    ),
    (UnknownVariableError, _unknown_variable_facts),
    (MissingVariableError, _missing_variable_facts),
    (MalformedReferenceError, lambda error: {"kind": "malformed-reference"} | _owner(error)),
]


# ---- providers -----------------------------------------------------------------------------------


def scope_id(context: AssembleContext) -> str:
    """Name the scope that is being assembled."""
    return context.scope.id if isinstance(context.scope, Key) else "none"


def make_provider(spec: Json, flavour: Flavour) -> str | Callable[..., Any]:
    """Build the provider that a case describes; only `scope_id` asks for the assemble context."""
    value = spec["value"]
    match spec["kind"]:
        case "const" if flavour == "fixed" and isinstance(value, str):
            return value
        case "const":
            return _nullary(lambda: value, flavour)
        case "counter":
            calls = itertools.count(1)
            return _nullary(lambda: f"{value}{next(calls)}", flavour)
        case "scope_id":
            return _unary(lambda context: f"{value}{scope_id(context)}", flavour)
    raise AssertionError(f"unknown provider kind in {spec!r}")


def _nullary(answer: Callable[[], Any], flavour: Flavour) -> Callable[[], Any]:
    if flavour != "awaited":
        return answer

    async def awaited() -> Any:
        return answer()

    return awaited


def _unary(
    answer: Callable[[AssembleContext], Any], flavour: Flavour
) -> Callable[[AssembleContext], Any]:
    if flavour != "awaited":
        return answer

    async def awaited(context: AssembleContext) -> Any:
        return answer(context)

    return awaited


def make_tool_provider(op: Op, flavour: Flavour) -> Callable[[], Any]:
    """Build a provider of the op's schemas, in the form of the flavour."""
    known = op.get("knownNames")
    made_once = [_schema(schema) for schema in op["schemas"]]
    forms: dict[Flavour, Callable[[], list[Any]]] = {
        "plain": lambda: op["schemas"],
        "awaited": lambda: [_schema(schema) for schema in op["schemas"]],
        "fixed": lambda: made_once,
    }
    schemas = forms[flavour]

    def answer() -> Any:
        return schemas() if known is None else ToolProviderResult(schemas(), known_names=known)

    return _nullary(answer, flavour)


def _schema(schema: Json) -> ToolSchema:
    return ToolSchema(schema["name"], schema["description"], schema["parameters"])


# ---- listeners -----------------------------------------------------------------------------------


def make_listener(behaviour: str, args: Json) -> Listener:
    """Build the listener that a case describes."""
    if behaviour == "short_circuit":
        return _short_circuit(args)
    if behaviour == "after_append":
        return _after_append(args)
    change = CHANGES[behaviour]

    async def listener(
        assembly: PromptAssembly, _context: AssembleContext, next: Next
    ) -> PromptAssembly:
        change(assembly, args)
        return await next()

    return listener


def _short_circuit(args: Json) -> Listener:
    async def listener(
        _assembly: PromptAssembly, _context: AssembleContext, _next: Next
    ) -> PromptAssembly:
        return PromptAssembly(
            sections=[AssembledSection(**entry) for entry in args.get("sections", ())],
            contexts=[AssembledContext(**entry) for entry in args.get("contexts", ())],
            tools=[_schema(schema) for schema in args.get("tools", ())],
            variables=dict(args.get("variables", {})),
        )

    return listener


def _after_append(args: Json) -> Listener:
    async def listener(
        _assembly: PromptAssembly, _context: AssembleContext, next: Next
    ) -> PromptAssembly:
        result = await next()
        result.sections.append(AssembledSection(args["name"], args["text"]))
        return result

    return listener


def _append_section(assembly: PromptAssembly, args: Json) -> None:
    assembly.sections.append(AssembledSection(args["name"], args["text"]))


def _prepend_section(assembly: PromptAssembly, args: Json) -> None:
    assembly.sections.insert(0, AssembledSection(args["name"], args["text"]))


def _append_context(assembly: PromptAssembly, args: Json) -> None:
    assembly.contexts.append(AssembledContext(args["name"], args["text"]))


def _mutate_text(assembly: PromptAssembly, args: Json) -> None:
    for section in assembly.sections:
        if section.name == args["name"]:
            section.text += args["suffix"]


def _set_variable(assembly: PromptAssembly, args: Json) -> None:
    assembly.variables[args["name"]] = args["value"]


def _add_tool(assembly: PromptAssembly, args: Json) -> None:
    assembly.tools.append(_schema(args))


def _mutate_tool(assembly: PromptAssembly, args: Json) -> None:
    for index, tool in enumerate(assembly.tools):
        if tool.name == args["name"]:
            assembly.tools[index] = attrs.evolve(
                tool,
                description=tool.description + args["suffix"],
                parameters={**tool.parameters, "mutated": args["suffix"]},
            )


def _throw(_assembly: PromptAssembly, args: Json) -> None:
    raise ListenerError(args["message"])


CHANGES: dict[str, Callable[[PromptAssembly, Json], None]] = {
    "append_section": _append_section,
    "prepend_section": _prepend_section,
    "append_context": _append_context,
    "mutate_text": _mutate_text,
    "set_variable": _set_variable,
    "add_tool": _add_tool,
    "mutate_tool": _mutate_tool,
    "throw": _throw,
}


# ---- registrations -------------------------------------------------------------------------------


def _text(op: Op, flavour: Flavour) -> Any:
    spec = op.get("text_provider")
    return op["text"] if spec is None else make_provider(spec, flavour)


def _section(ctx: Context, op: Op, flavour: Flavour) -> Effect:
    return ctx[SystemPrompt].section(
        op["name"],
        _text(op, flavour),
        order=_order(op),
        complete=op.get("complete", False),
    )


def _context(ctx: Context, op: Op, flavour: Flavour) -> Effect:
    return ctx[SystemPrompt].context(op["name"], _text(op, flavour), order=_order(op))


def _order(op: Op) -> float:
    order = op["order"]
    return float(order) if isinstance(order, str) else order


def _variable(ctx: Context, op: Op, flavour: Flavour) -> Effect:
    spec = op.get("value_provider") or {"kind": "const", "value": op["value"]}
    return ctx[SystemPrompt].variable(op["name"], make_provider(spec, flavour))


def _tools(ctx: Context, op: Op, flavour: Flavour) -> Effect:
    return ctx[SystemPrompt].tools(make_tool_provider(op, flavour))


def _suppress(ctx: Context, _op: Op, _flavour: Flavour) -> Effect:
    return ctx[SystemPrompt].suppress_runtime_context()


def _listener(ctx: Context, op: Op, _flavour: Flavour) -> Effect:
    return ctx.on(
        ASSEMBLE,
        make_listener(op["behaviour"], op["args"]),
        prepend=op.get("prepend", False),
        unfiltered=op.get("global", False),
    )


REGISTRATIONS: dict[str, Callable[[Context, Op, Flavour], Effect]] = {
    "section": _section,
    "context": _context,
    "variable": _variable,
    "tools": _tools,
    "suppress": _suppress,
    "listener": _listener,
}


# ---- one tree ------------------------------------------------------------------------------------


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


def describe_assembly(assembly: PromptAssembly) -> Json:
    """Show an assembly as the corpus does, its two renderings included."""
    return {
        "sections": [{"name": entry.name, "text": entry.text} for entry in assembly.sections],
        "contexts": [{"name": entry.name, "text": entry.text} for entry in assembly.contexts],
        "tools": [_describe_tool(tool) for tool in assembly.tools],
        "variables": dict(assembly.variables),
        "prompt": _rendered(render_prompt, assembly),
        "snapshot": _rendered(render_context_snapshot, assembly),
    }


def _describe_tool(tool: ToolSchema) -> Json:
    parameters = json.loads(json.dumps(tool.parameters))
    return {"name": tool.name, "description": tool.description, "parameters": parameters}


def _rendered(render: Callable[[PromptAssembly], str], assembly: PromptAssembly) -> Json:
    try:
        return render(assembly)
    except PromptRenderError as error:
        return {"error": describe_error(error)}
