"""A typed function as a tool: its name, its docstring and its signature say everything.

A parameter annotated with `ToolCall` gets the call and is no argument. Annotated[int, "text"]
describes an argument, Annotated[int, {"minimum": 1}] adds to its schema.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from harness_core.errors import PluginError

from .classes import NO_DEFAULT, Field, hints_of
from .docstring import read_docstring
from .model import Arguments, Tool, ToolCall
from .scalars import Mismatch, Shape
from .shapes import Shapes, record_shape
from .validate import ArgumentsError

__all__ = ["function_tool"]


def function_tool(
    function: Callable[..., Any],
    *,
    name: str | None = None,
    description: str | None = None,
    timeout: float | None = None,
    parallel: bool = False,
    max_output: int | None = None,
    names: Mapping[str, Any] | None = None,
) -> Tool:
    """Return the tool that calls `function`; name and description come from it unless given.

    `names` are names that annotations may use and that only the surroundings of the function
    know. Raises PluginError for a parameter without a type, or with one that JSON cannot say.
    """
    own_name = name or getattr(function, "__name__", None)
    if own_name is None or own_name == "<lambda>":
        raise PluginError(f"{function!r} has no name of its own: give name=...")
    text, about = read_docstring(_docstring(function))
    fields, call_parameter = _parameters(function, f'tool "{own_name}"', about, names or {})
    shapes = Shapes(f'tool "{own_name}"', names)
    shape = record_shape(shapes, own_name, fields, dict)
    schema = shape.schema | ({"$defs": shapes.defs} if shapes.defs else {})
    return Tool(
        own_name,
        text if description is None else description,
        schema,
        run=_caller(function, call_parameter),
        read=_reader(shape),
        timeout=timeout,
        parallel=parallel,
        max_output=max_output,
    )


def _docstring(function: Callable[..., Any]) -> str | None:
    is_plain = inspect.isroutine(function)
    return function.__doc__ if is_plain else getattr(type(function).__call__, "__doc__", None)


def _caller(function: Callable[..., Any], parameter: str | None) -> Callable[..., Any]:
    def run(arguments: Arguments) -> Any:
        return function(**arguments)

    def run_with_call(arguments: Arguments, call: ToolCall) -> Any:
        return function(**arguments, **{str(parameter): call})

    return run if parameter is None else run_with_call


def _reader(shape: Shape) -> Callable[[Arguments], Any]:
    def read(arguments: Arguments) -> Any:
        try:
            return shape.read(arguments, "$")
        except Mismatch as error:
            raise ArgumentsError((str(error),)) from error

    return read


def _parameters(
    function: Callable[..., Any], whose: str, about: Mapping[str, str], names: Mapping[str, Any]
) -> tuple[list[Field], str | None]:
    """Return the arguments, and the name of the parameter that gets the call."""
    annotated: Any = function
    while not inspect.isroutine(annotated):
        # A partial or an object that can be called.
        annotated = getattr(annotated, "func", None) or type(annotated).__call__
    hints = hints_of(annotated, names)
    fields: list[Field] = []
    call_parameter: str | None = None
    for one in inspect.signature(function).parameters.values():
        if one.kind not in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY):
            raise PluginError(f"{whose}: arguments are passed by name, and {one} cannot be")
        kind = hints.get(one.name, NO_DEFAULT)
        if kind is ToolCall:
            call_parameter = one.name
        elif kind is NO_DEFAULT:
            raise PluginError(f"{whose}: parameter {one.name} has no type: annotate it")
        else:
            is_required = one.default is one.empty
            default = NO_DEFAULT if is_required else one.default
            fields.append(Field(one.name, kind, is_required, default, about.get(one.name, "")))
    return fields, call_parameter
