"""The records of `tools`: a tool, a call, its result, and what may be decided about a call."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeAlias

import attrs

from harness_core.errors import InvalidNameError, InvalidSchemaError, PluginError
from harness_core.prompt import TOOL_ORDER_REST, Origin, ToolSchema

from .encode import to_json
from .presentation import Presentation
from .validate import ArgumentsError, Schema, plain_copy

__all__ = [
    "Tool",
    "ToolCall",
    "ToolDecision",
    "ToolResult",
    "Visibility",
]

Arguments: TypeAlias = dict[str, Any]

Status: TypeAlias = Literal[
    "ok", "failed", "invalid", "unknown", "denied", "timed-out", "cancelled", "gone"
]


def _identity(arguments: Arguments) -> Arguments:
    return arguments


@attrs.frozen(eq=False)
class Tool:
    """Something the model may call.

    `run(arguments)`, or `run(arguments, call)` with the ToolCall, is sync or async; what it returns
    becomes the ToolResult. A sync one must not block. `parameters` is the JSON schema of the
    arguments, an object; it is never changed. `timeout` (seconds) and `max_output` (characters)
    stand in for those of the service. `parallel` says that calls are safe beside any others.
    `read`, if given, turns arguments that fit the schema into what `run` gets, and may raise
    ValueError to refuse them. `runs_code` says that it calls the other tools of its scope from
    code: it is visible where `present_as` says "code" or "both", and nowhere else.

    Raises InvalidNameError, InvalidSchemaError or PluginError.
    """

    name: str
    description: str
    parameters: Mapping[str, Any] = attrs.field(default=None)
    run: Callable[..., Any] = attrs.field(kw_only=True)
    timeout: float | None = attrs.field(default=None, kw_only=True)
    parallel: bool = attrs.field(default=False, kw_only=True)
    max_output: int | None = attrs.field(default=None, kw_only=True)
    runs_code: bool = attrs.field(default=False, kw_only=True)
    read: Callable[[Arguments], Any] = attrs.field(default=_identity, kw_only=True, repr=False)
    schema: Schema = attrs.field(init=False, repr=False)
    takes_call: bool = attrs.field(init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        name: Any = self.name
        if not isinstance(name, str) or not name.strip() or name == TOOL_ORDER_REST:
            raise InvalidNameError(name, of="tool", expected="a str that is not empty")
        if not callable(self.run):
            raise PluginError(f'tool "{name}": run must be callable, got {self.run!r}')
        check_limits(f'tool "{name}"', self.timeout, self.max_output)
        try:
            frozen = ToolSchema(name, self.description, self.parameters).parameters
            schema = Schema(name, frozen)
        except RecursionError as error:
            raise InvalidSchemaError(name, "parameters", "it is nested too deeply") from error
        object.__setattr__(self, "parameters", frozen)
        object.__setattr__(self, "schema", schema)
        object.__setattr__(self, "takes_call", _takes_call(self.run))

    def prepare(self, arguments: object) -> Any:
        """Return what `run` gets for these arguments; raise ArgumentsError with all violations."""
        self.schema.check(arguments)
        assert isinstance(arguments, dict)
        try:
            return self.read(plain_copy(arguments))
        except ArgumentsError:
            raise
        except ValueError as error:
            raise ArgumentsError((f"$: {error}",)) from error


def check_limits(whose: str, timeout: object, max_output: object) -> None:
    """Raise PluginError unless the limits are usable."""
    if timeout is not None and (
        isinstance(timeout, bool) or not isinstance(timeout, int | float) or not timeout > 0
    ):
        raise PluginError(f"{whose}: timeout must be seconds above 0, got {timeout!r}")
    if max_output is not None and (
        isinstance(max_output, bool) or not isinstance(max_output, int) or max_output < SMALLEST
    ):
        raise PluginError(
            f"{whose}: max_output must be at least {SMALLEST} characters, got {max_output!r}"
        )


SMALLEST = 200
"""Characters that an output limit must leave: the notice of a truncation stands within it."""


def _takes_call(function: Callable[..., Any]) -> bool:
    """Whether a function has a second parameter for the call.

    One with a default is somebody's own, as in `lambda arguments, path=path: ...`, unless it is
    named `call`.
    """
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return False
    if any(one.kind is one.VAR_POSITIONAL for one in parameters):
        return True
    taken = [
        one for one in parameters if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)
    ]
    return len(taken) > 1 and (taken[1].default is taken[1].empty or taken[1].name == "call")


@attrs.frozen(eq=False)
class ToolCall:
    """One call, as listeners and tools see it.

    `arguments` is a copy that belongs to the listeners: what they change there, the tool does not
    see. `tool` is None where no such tool is visible. `via` is the call whose code makes this one;
    None for a call that the model makes itself.
    """

    name: str
    arguments: Any
    scope: object | None = None
    call_id: str | None = None
    tool: Tool | None = None
    plugin: str | None = None
    via: ToolCall | None = None


@attrs.frozen
class ToolResult:
    """What came of a call: `text` is for the model, `value` is what the tool returned.

    `status` is "ok"; "failed" (it raised), "invalid" (the arguments, see `violations`), "unknown"
    (no such tool here), "denied", "timed-out", "cancelled", or "gone" (its plugin was disposed or
    the tool replaced). `dropped` counts the characters that the output limit has taken off; `whole`
    is the text as the tool gave it, set by whoever runs the tool.
    """

    text: str = attrs.field(validator=attrs.validators.instance_of(str))
    status: Status = "ok"
    value: Any = attrs.field(default=None, kw_only=True)
    violations: tuple[str, ...] = attrs.field(default=(), kw_only=True)
    dropped: int = attrs.field(default=0, kw_only=True)
    whole: str | None = attrs.field(default=None, kw_only=True, eq=False, repr=False)
    name: str = attrs.field(default="", kw_only=True)
    call_id: str | None = attrs.field(default=None, kw_only=True)

    @property
    def is_error(self) -> bool:
        """Whether the model is to read it as a failure."""
        return self.status != "ok"

    @property
    def data(self) -> Any:
        """What code gets: the value as JSON data, whole where the text was cut.

        The text, where there is no such value, or where a listener has changed the text: what was
        taken out of that must not be in the data either.
        """
        if self.whole is not None and not self._is_as_returned(self.whole):
            return self.text
        if self.value is None:
            return self.whole or self.text or None
        try:
            return to_json(self.value)
        except (TypeError, RecursionError):
            return self.text

    def _is_as_returned(self, whole: str) -> bool:
        if not self.dropped:
            return self.text == whole
        room = len(whole) - self.dropped
        return room >= 0 and self.text.startswith(whole[:room])


@attrs.frozen
class ToolDecision:
    """What a listener of `tools/pre-execute` or `tools/ask` decides about a call."""

    kind: Literal["allow", "deny", "ask"]
    reason: str = ""

    @classmethod
    def allow(cls) -> ToolDecision:
        """Let the call go on, and ask no other listener."""
        return cls("allow")

    @classmethod
    def deny(cls, reason: str) -> ToolDecision:
        """Refuse the call; the model reads the reason."""
        return cls("deny", reason)

    @classmethod
    def ask(cls, question: str) -> ToolDecision:
        """Have somebody asked: the listeners of `tools/ask`. Without an answer, it is a denial."""
        return cls("ask", question)


@attrs.frozen
class Visibility:
    """Why a scope can or cannot call a name. `str()` is one sentence for people.

    `origin` is the tool of that name nearest to the scope (None: there is none), `shadows` those
    it stands in front of, nearest first, `hidden_by` the restrictions that take it away. `through`
    names the tool that it can only be called through, where the model cannot call it itself.
    """

    name: str
    scope: object | None
    is_visible: bool
    reason: str
    origin: Origin | None = None
    shadows: tuple[Origin, ...] = ()
    hidden_by: tuple[Origin, ...] = ()
    presentation: Presentation | None = None
    through: str | None = None

    def __str__(self) -> str:
        return self.reason
