"""Shows assemblies and errors of harness_core as the corpus writes them down."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

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
from harness_core.prompt import PromptAssembly, ToolSchema, render_context_snapshot, render_prompt

from .corpus import Json

__all__ = ["ListenerError", "NothingThereError", "describe_assembly", "describe_error"]


class ListenerError(Exception):
    """What a listener of the behaviour `throw` raises."""


class NothingThereError(LookupError):
    """An operation on a plugin whose mount was refused, so that there is none."""


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
