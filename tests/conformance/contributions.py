"""Makes the registrations of a case on harness_core: its providers and listeners.

There is more than one way to write down a case; the answers may not depend on it, so there are
flavours. `plain` has synchronous providers and bodies, and schemas as mappings; `awaited` has
coroutine functions, and schemas as records made anew each time; `fixed` has what never changes as
a value instead of a provider, and schemas as records made once.
"""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable
from typing import Any, Literal, TypeAlias

import attrs

from harness_core import Context, Effect
from harness_core.prompt import (
    AssembleContext,
    AssembledContext,
    AssembledSection,
    PromptAssembly,
    SystemPrompt,
    ToolProviderResult,
    ToolSchema,
)

from .corpus import Json, Op
from .facts import ListenerError

__all__ = ["FLAVOURS", "REGISTRATIONS", "Flavour", "Key"]

Flavour: TypeAlias = Literal["plain", "awaited", "fixed"]
Next: TypeAlias = Callable[[], Awaitable[PromptAssembly]]
Listener: TypeAlias = Callable[[PromptAssembly, AssembleContext, Next], Awaitable[PromptAssembly]]

FLAVOURS: tuple[Flavour, ...] = ("plain", "awaited", "fixed")

ASSEMBLE = "system-prompt/assemble"


@attrs.frozen(eq=False)
class Key:
    """A scope key that knows the id its case calls it by."""

    id: str


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
        case _:
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
