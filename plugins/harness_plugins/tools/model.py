"""The records of `tools`: a tool, a call, its result, and what may be decided about a call."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeAlias

import attrs

from harness_core.errors import (
    DuplicateRegistrationError,
    HarnessError,
    InvalidNameError,
    PluginError,
)
from harness_core.prompt import TOOL_ORDER_REST, Origin, ToolSchema

from .validate import ArgumentsError, Schema, plain_copy

__all__ = [
    "DuplicateToolError",
    "RestrictionError",
    "Tool",
    "ToolCall",
    "ToolDecision",
    "ToolError",
    "ToolResult",
    "Visibility",
]

Arguments: TypeAlias = dict[str, Any]

Status: TypeAlias = Literal[
    "ok", "failed", "invalid", "unknown", "denied", "timed-out", "cancelled", "gone"
]


class ToolError(HarnessError, RuntimeError):
    """What a tool raises to fail in words of its own; the model reads exactly the message.

    It is an answer and no fault of the tool, so it is not logged.
    """


class RestrictionError(HarnessError, ValueError):
    """A restriction that makes no sense. `names` are the unknown ones, `known` those there are."""

    def __init__(
        self, message: str, names: tuple[str, ...] = (), known: tuple[str, ...] = ()
    ) -> None:
        self.names = names
        self.known = known
        super().__init__(f"{message}; known tools: {', '.join(known) or '(none)'}")


class DuplicateToolError(DuplicateRegistrationError):
    """Two tools of one name at one level: plugin `holder` has it, and `plugin` wants it."""

    def __init__(self, name: str, layer: str, *, plugin: str, holder: str, place: str) -> None:
        self.plugin = plugin
        self.holder = holder
        hint = f': plugin "{holder}" has it ({place}), plugin "{plugin}" wants it'
        super().__init__("tool", name, layer, hint=hint)


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
    ValueError to refuse them.

    Raises InvalidNameError, InvalidSchemaError or PluginError.
    """

    name: str
    description: str
    parameters: Mapping[str, Any] = attrs.field(default=None)
    run: Callable[..., Any] = attrs.field(kw_only=True)
    timeout: float | None = attrs.field(default=None, kw_only=True)
    parallel: bool = attrs.field(default=False, kw_only=True)
    max_output: int | None = attrs.field(default=None, kw_only=True)
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
        frozen = ToolSchema(name, self.description, self.parameters).parameters
        object.__setattr__(self, "parameters", frozen)
        object.__setattr__(self, "schema", Schema(name, frozen))
        object.__setattr__(self, "takes_call", _positional(self.run) >= 2)

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


def _positional(function: Callable[..., Any]) -> int:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return 1
    kinds = [parameter.kind for parameter in parameters]
    if inspect.Parameter.VAR_POSITIONAL in kinds:
        return 2
    taken = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(kind in taken for kind in kinds)


@attrs.frozen(eq=False)
class ToolCall:
    """One call, as listeners and tools see it.

    `arguments` is a copy that belongs to the listeners: what they change there, the tool does not
    see. `tool` is None where no such tool is visible.
    """

    name: str
    arguments: Any
    scope: object | None = None
    call_id: str | None = None
    tool: Tool | None = None
    plugin: str | None = None


@attrs.frozen
class ToolResult:
    """What came of a call: `text` is for the model, `value` is what the tool returned.

    `status` is "ok"; "failed" (it raised), "invalid" (the arguments, see `violations`), "unknown"
    (no such tool here), "denied", "timed-out", "cancelled", or "gone" (its plugin was disposed or
    the tool replaced). `dropped` counts the characters that the output limit has taken off.
    """

    text: str
    status: Status = "ok"
    value: Any = attrs.field(default=None, kw_only=True)
    violations: tuple[str, ...] = attrs.field(default=(), kw_only=True)
    dropped: int = attrs.field(default=0, kw_only=True)
    name: str = attrs.field(default="", kw_only=True)
    call_id: str | None = attrs.field(default=None, kw_only=True)

    @property
    def is_error(self) -> bool:
        """Whether the model is to read it as a failure."""
        return self.status != "ok"


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
    it stands in front of, nearest first, `hidden_by` the restrictions that take it away.
    """

    name: str
    scope: object | None
    is_visible: bool
    reason: str
    origin: Origin | None = None
    shadows: tuple[Origin, ...] = ()
    hidden_by: tuple[Origin, ...] = ()

    def __str__(self) -> str:
        return self.reason
