"""Every error this package raises on purpose, and its place in the tree.

    HarnessError
    ├── PluginError (TypeError)                  not a plugin, or a plugin that broke its contract
    ├── ConfigError (ValueError)                 problems, one line each
    ├── ManifestError (ValueError)               a fault in harness.yaml, with its place
    ├── InactiveFiberError (RuntimeError)        a registration through a closed door
    ├── SelfDisposalError (RuntimeError)         a fiber that waits for itself
    ├── ForeignThreadError (RuntimeError)        a context used outside its own event loop
    ├── ServiceConflictError (ValueError)        two services for one key
    ├── ServiceAccessError (AttributeError)      a service that is not injected, or gone
    ├── EventModeError (TypeError)               an event dispatched or declared in a wrong mode
    ├── ScopeError (ValueError)                  a scope key bound twice, a cycle of parents
    ├── DuplicateRegistrationError (ValueError)  one name twice in one layer
    ├── InvalidNameError (ValueError)
    ├── InvalidOrderError (ValueError)
    ├── InvalidSchemaError (ValueError)          a tool schema that JSON cannot carry
    ├── ToolOrderError (ValueError)
    ├── MultipleCompleteSectionsError (ValueError)
    ├── ContributionError (TypeError)            a provider or listener that returned a wrong thing
    ├── AssemblyCancelled (RuntimeError)
    ├── SwapTimeoutError (TimeoutError)          plugins were being swapped for too long
    ├── InvariantError (AssertionError)
    └── PromptRenderError (ValueError)
        ├── UnknownVariableError (LookupError)
        ├── MissingVariableError (LookupError)
        └── MalformedReferenceError

Each is also the built-in it resembles, carries its facts as attributes, and survives pickling.
What a plugin's own code raises keeps its type and gains a note that names its owner.
Contract: section 2, "Errors", and law L10. `closest`, `did_you_mean` and
`safe_repr` at the top help to word them.
"""

from __future__ import annotations

import difflib
import pickle
from collections.abc import Iterable, Sequence
from typing import Any

__all__ = [
    "AssemblyCancelled",
    "ConfigError",
    "ContributionError",
    "DuplicateRegistrationError",
    "EventModeError",
    "ForeignThreadError",
    "HarnessError",
    "InactiveFiberError",
    "InvalidNameError",
    "InvalidOrderError",
    "InvalidSchemaError",
    "InvariantError",
    "MalformedReferenceError",
    "ManifestError",
    "MissingVariableError",
    "MultipleCompleteSectionsError",
    "PluginError",
    "PromptRenderError",
    "ScopeError",
    "SelfDisposalError",
    "ServiceAccessError",
    "ServiceConflictError",
    "SwapTimeoutError",
    "ToolOrderError",
    "UnknownVariableError",
]


def closest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that `name` was probably meant to be, or None."""
    matches = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    return matches[0] if matches else None


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return the end of a message: `; did you mean "x"?` if a known name is close, else nothing."""
    guess = closest(name, known)
    return f'; did you mean "{guess}"?' if guess else ""


def _portable(fact: object) -> object:
    """Turn what cannot be pickled (a fiber, a lambda) into its name, so that the error travels."""
    path = getattr(fact, "path", None)
    if isinstance(path, str):
        return path
    try:
        pickle.dumps(fact)
    except Exception:  # whatever an object's own pickling raises
        return safe_repr(fact)
    return fact


def safe_repr(value: object, length: int = 120) -> str:
    """Return a repr that is short and never raises: for messages about other people's objects."""
    try:
        text = repr(value)
    except Exception as error:
        text = f"<{type(value).__name__} whose repr raised {type(error).__name__}>"
    return text if len(text) <= length else f"{text[: length - 3]}..."


def _rebuild(cls: type[HarnessError], args: tuple[Any, ...], facts: dict[str, Any]) -> HarnessError:
    error = cls.__new__(cls)
    error.args = args
    error.__dict__.update(facts)
    return error


class HarnessError(Exception):
    """The root of every error that this package raises on purpose."""

    def __reduce__(self) -> tuple[Any, ...]:
        facts = {name: _portable(fact) for name, fact in self.__dict__.items()}
        return _rebuild, (type(self), self.args, facts)


class PluginError(HarnessError, TypeError):
    """Something is not a plugin, or a plugin broke the contract of its form."""


class ConfigError(HarnessError, ValueError):
    """A plugin's configuration is wrong. `problems` holds one line for each fault."""

    def __init__(self, problems: Iterable[str], *, plugin: str | None = None) -> None:
        self.problems: list[str] = [problems] if isinstance(problems, str) else list(problems)
        self.plugin = plugin
        head = f'invalid config of plugin "{plugin}"' if plugin else "invalid config"
        super().__init__("\n  ".join([f"{head}:", *self.problems]))


class ManifestError(HarnessError, ValueError):
    """A fault in a harness file. `line` and `column` count from 1; None where there is no place."""

    def __init__(
        self, message: str, *, file: str, line: int | None = None, column: int | None = None
    ) -> None:
        self.message = message
        self.file = file
        self.line = line
        self.column = column
        place = ":".join(str(part) for part in (file, line, column) if part is not None)
        super().__init__(f"{place}: {message}")


class InactiveFiberError(HarnessError, RuntimeError):
    """A registration through a context whose fiber is not loading or active (law L4)."""

    def __init__(self, fiber: Any) -> None:
        self.fiber = fiber
        path = getattr(fiber, "path", fiber)
        state = getattr(getattr(fiber, "state", None), "value", "not active")
        super().__init__(
            f'fiber "{path}" is {state}: nothing can be registered through its contexts. '
            "Register while the plugin's body runs or while the fiber is active."
        )


class SelfDisposalError(HarnessError, RuntimeError):
    """Code that a fiber must wait for waits for that fiber (law L6)."""

    def __init__(self, fiber: Any, owner: Any) -> None:
        self.fiber = fiber
        self.owner = owner
        path, waiting = getattr(fiber, "path", fiber), getattr(owner, "path", owner)
        super().__init__(
            f'code of fiber "{waiting}" awaits fiber "{path}", which cannot end or settle before '
            "that code ends. Call dispose() without awaiting it, or let other code await it."
        )


class ForeignThreadError(HarnessError, RuntimeError):
    """A context was used from another thread or loop than the one its tree lives in."""


class ServiceConflictError(HarnessError, ValueError):
    """A service key that is taken in this realm. `holder` names the plugin that has it."""

    def __init__(self, key: str, holder: str) -> None:
        self.key = key
        self.holder = holder
        super().__init__(
            f'service "{key}" is already provided by "{holder}" in this realm. '
            f'Dispose that one first, or give this subtree its own with ctx.isolate("{key}").'
        )


class ServiceAccessError(HarnessError, AttributeError):
    """A service read by a fiber that did not inject it, or whose provider is gone."""

    def __init__(self, key: str, fiber: Any, message: str | None = None) -> None:
        self.key = key
        self.fiber = fiber
        path = getattr(fiber, "path", fiber)
        super().__init__(
            message
            or f'fiber "{path}" reads service "{key}" without injecting it. '
            f'Add inject = ["{key}"] to the plugin, or use ctx.get("{key}") if it is optional.'
        )


class EventModeError(HarnessError, TypeError):
    """An event used in another mode than the one it declares."""


class ScopeError(HarnessError, ValueError):
    """A scope key that is bound already, or a parent link that would close a cycle."""


class DuplicateRegistrationError(HarnessError, ValueError):
    """One name twice in one layer. `layer` is "global" or "scope"."""

    def __init__(self, of: str, name: str, layer: str, *, hint: str = "") -> None:
        self.of = of
        self.name = name
        self.layer = layer
        kind = {"section": "prompt section", "context": "runtime context"}.get(of, of)
        if of == "variable":
            kind = "prompt variable"
        where = (
            ". A per-agent override is made through that agent's context (its scope)"
            if layer == "global"
            else " in this scope"
        )
        super().__init__(f'{kind} "{name}" is already registered{where}{hint}')


class InvalidNameError(HarnessError, ValueError):
    """A name that cannot be used."""

    def __init__(self, name: object, *, of: str = "variable", expected: str = "") -> None:
        self.name = name
        self.of = of
        expected = expected or "a lower-case letter, then lower-case letters, digits or _"
        super().__init__(f"invalid {of} name {name!r}: expected {expected}")


class InvalidOrderError(HarnessError, ValueError):
    """An order that is not a finite number."""

    def __init__(self, of: str, name: str, order: object) -> None:
        self.of = of
        self.name = name
        self.order = order
        super().__init__(
            f'{of} "{name}" has order {order!r}: expected a finite int or float '
            "(negative before the persona, 0 persona, 100 to 199 tool guidance)"
        )


class InvalidSchemaError(HarnessError, ValueError):
    """A tool schema that is not a JSON object. `path` says where in it."""

    def __init__(self, tool: object, path: str, problem: str) -> None:
        self.tool = tool
        self.path = path
        self.problem = problem
        super().__init__(f"schema of tool {tool!r} at {path}: {problem}")


class ToolOrderError(HarnessError, ValueError):
    """A `tool_order` that cannot be followed.

    `rule` is one of "tool-order-without-rest", "tool-order-duplicate" (both at load),
    "unknown-tools-in-order", "reserved-tool-name" (both at assembly).
    """

    def __init__(
        self,
        names: Iterable[str],
        known: Iterable[str] = (),
        *,
        rule: str = "unknown-tools-in-order",
        rest: str = "<unlisted-tools>",
    ) -> None:
        self.names: list[str] = list(names)
        self.known: list[str] = list(known)
        self.rule = rule
        quoted = ", ".join(f'"{name}"' for name in self.names)
        message = {
            "tool-order-without-rest": f'tool_order must hold "{rest}" exactly once: '
            "it marks where the tools go that the list does not name",
            "tool-order-duplicate": f"tool_order names {quoted} twice",
            "reserved-tool-name": f"a tool provider returned a tool named {quoted}, "
            "which is reserved for the rest marker of tool_order",
        }.get(rule)
        if message is None:
            known_names = ", ".join(self.known) or "(none)"
            message = f"tool_order names unknown tools {quoted}; known tools: {known_names}"
            guesses = (closest(name, self.known) for name in self.names)
            meant = [f'"{guess}"' for guess in guesses if guess]
            message += f"; did you mean {', '.join(meant)}?" if meant else ""
        super().__init__(message)

    @property
    def name(self) -> str:
        """The first offending name."""
        return self.names[0] if self.names else ""


class MultipleCompleteSectionsError(HarnessError, ValueError):
    """Two sections claim to be the whole system prompt."""

    def __init__(self, names: Iterable[str]) -> None:
        self.names: list[str] = list(names)
        quoted = ", ".join(f'"{name}"' for name in self.names)
        super().__init__(
            f"several complete sections are effective: {quoted}. Only one section can be the "
            "whole prompt; shadow the others in this scope, or dispose their plugins."
        )


class ContributionError(HarnessError, TypeError):
    """A provider or listener that returned something of a wrong type."""


class AssemblyCancelled(HarnessError, RuntimeError):
    """The assembly's signal was cancelled. `phase` says before which phase it was noticed."""

    def __init__(self, phase: str = "") -> None:
        self.phase = phase
        super().__init__(f"the assembly was cancelled before {phase or 'it finished'}")


class SwapTimeoutError(HarnessError, TimeoutError):
    """An assembly waited too long for plugins that are being swapped (law L8)."""

    def __init__(self, seconds: float, swapping: Iterable[str]) -> None:
        self.seconds = seconds
        self.swapping: list[str] = list(swapping)
        names = ", ".join(f'"{name}"' for name in self.swapping)
        super().__init__(
            f"an assembly waited {seconds:g} s for {names} to be swapped and gave up. "
            "A plugin's new body or old teardown hangs."
        )


class InvariantError(HarnessError, AssertionError):
    """An assembly that breaks a rule. `listener` names who broke it, where that is known."""

    def __init__(self, rule: str, entry: object, listener: str | None = None) -> None:
        self.rule = rule
        self.entry = entry
        self.listener = listener
        by = f', broken by listener "{listener}"' if listener else ""
        super().__init__(f"assembly invariant violated: {rule} ({entry!r}){by}")


class PromptRenderError(HarnessError, ValueError):
    """A text that cannot be rendered.

    `owner_kind` ("section" or "context") and `owner_name` say whose text it is; `reference` is
    the inside of the braces; `line` and `column` (from 1) and `offset` (from 0) say where.
    """

    owner_kind: str
    owner_name: str
    reference: str
    offset: int | None = None
    line: int | None = None
    column: int | None = None

    def at(self, text: str, offset: int) -> PromptRenderError:
        """Record the place in `text`, and return the error."""
        self.offset = offset
        self.line = text.count("\n", 0, offset) + 1
        self.column = offset - (text.rfind("\n", 0, offset) + 1) + 1
        self.add_note(
            f'at line {self.line}, column {self.column} of {self.owner_kind} "{self.owner_name}"; '
            "text that is data is registered with literal=True"
        )
        return self


class UnknownVariableError(PromptRenderError, LookupError):
    """A reference to a variable that nobody registered."""

    def __init__(
        self, reference: str, owner_kind: str, owner_name: str, known: Sequence[str]
    ) -> None:
        self.reference = reference
        self.owner_kind = owner_kind
        self.owner_name = owner_name
        self.known: list[str] = list(known)
        guess = closest(reference, self.known)
        super().__init__(
            f'unknown prompt variable "{{{{{reference}}}}}" in {owner_kind} "{owner_name}"; '
            f"registered variables: {', '.join(self.known) or '(none)'}"
            + (f'; did you mean "{{{{{guess}}}}}"?' if guess else "")
        )


class MissingVariableError(PromptRenderError, LookupError):
    """A reference to a variable that has no value in this assembly."""

    def __init__(self, reference: str, owner_kind: str, owner_name: str) -> None:
        self.reference = reference
        self.owner_kind = owner_kind
        self.owner_name = owner_name
        super().__init__(
            f'prompt variable "{{{{{reference}}}}}" has no value for this assembly '
            f'({owner_kind} "{owner_name}")'
        )


class MalformedReferenceError(PromptRenderError):
    """Braces that look like a reference and are none."""

    def __init__(self, reference: str, owner_kind: str, owner_name: str) -> None:
        self.reference = reference
        self.owner_kind = owner_kind
        self.owner_name = owner_name
        super().__init__(
            f'malformed reference {reference!r} in {owner_kind} "{owner_name}": '
            "a reference is {{name}}, with a lower-case name and nothing else inside"
        )
