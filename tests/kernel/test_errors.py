"""Every error: under one root, also the built-in it resembles, picklable with its facts."""

from __future__ import annotations

import copy
import inspect
import pickle
from typing import Any

import pytest

from harness_core import Context, errors

CASES: list[tuple[errors.HarnessError, type[BaseException], dict[str, Any]]] = [
    (
        errors.DuplicateRegistrationError("section", "dup", "global"),
        ValueError,
        {"of": "section", "name": "dup", "layer": "global"},
    ),
    (
        errors.ToolOrderError(["basch"], ["bash"]),
        ValueError,
        {"names": ["basch"], "known": ["bash"]},
    ),
    (errors.MultipleCompleteSectionsError(["a", "b"]), ValueError, {"names": ["a", "b"]}),
    (
        errors.UnknownVariableError("modle", "section", "persona", ["model"]),
        LookupError,
        {
            "reference": "modle",
            "owner_kind": "section",
            "owner_name": "persona",
            "known": ["model"],
        },
    ),
    (
        errors.MissingVariableError("cwd", "context", "s"),
        LookupError,
        {"reference": "cwd", "owner_kind": "context", "owner_name": "s"},
    ),
    (
        errors.MalformedReferenceError("{{ a }}", "section", "s"),
        ValueError,
        {"reference": "{{ a }}", "owner_kind": "section", "owner_name": "s"},
    ),
    (errors.InvalidNameError("Model"), ValueError, {"name": "Model"}),
    (
        errors.InvalidOrderError("section", "s", float("inf")),
        ValueError,
        {"of": "section", "name": "s", "order": float("inf")},
    ),
    (errors.InactiveFiberError("root/x"), RuntimeError, {"fiber": "root/x"}),
    (
        errors.ServiceConflictError("clock", "root/holder"),
        ValueError,
        {"key": "clock", "holder": "root/holder"},
    ),
    (
        errors.ServiceAccessError("clock", "root/x"),
        AttributeError,
        {"key": "clock", "fiber": "root/x"},
    ),
    (
        errors.ConfigError(["a: wrong", "b: wrong"]),
        ValueError,
        {"problems": ["a: wrong", "b: wrong"]},
    ),
    (errors.PluginError("not a plugin"), TypeError, {}),
    (errors.AssemblyCancelled("evaluation"), RuntimeError, {}),
    (
        errors.InvariantError("names are unique", "s", "listener"),
        AssertionError,
        {"rule": "names are unique", "entry": "s", "listener": "listener"},
    ),
    (errors.SelfDisposalError("root/a", "root/b"), RuntimeError, {"fiber": "root/a"}),
    (errors.ForeignThreadError("thread"), RuntimeError, {}),
    (errors.EventModeError("mode"), TypeError, {}),
    (errors.ScopeError("scope"), ValueError, {}),
    (errors.ContributionError("wrong"), TypeError, {}),
    (
        errors.InvalidSchemaError("bash", "parameters.x", "no JSON"),
        ValueError,
        {"tool": "bash", "path": "parameters.x", "problem": "no JSON"},
    ),
    (
        errors.SwapTimeoutError(3.0, ["root/a"]),
        TimeoutError,
        {"seconds": 3.0, "swapping": ["root/a"]},
    ),
    (
        errors.ManifestError("wrong", file="harness.yaml", line=2, column=3),
        ValueError,
        {"file": "harness.yaml", "line": 2, "column": 3},
    ),
]


def name_of(case: object) -> str:
    """Name a case after its error."""
    return type(case).__name__ if isinstance(case, errors.HarnessError) else ""


@pytest.mark.parametrize(("error", "builtin", "facts"), CASES, ids=name_of)
def test_an_error_carries_its_facts_through_pickling(
    error: errors.HarnessError, builtin: type[BaseException], facts: dict[str, Any]
) -> None:
    """Same type, same message, same facts, same notes; also through copying."""
    assert isinstance(error, errors.HarnessError)
    assert isinstance(error, builtin)
    error.add_note("whose it is")
    for again in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(again) is type(error)
        assert str(again) == str(error)
        assert again.__notes__ == error.__notes__
        for name, value in facts.items():
            assert getattr(error, name) == value
            assert getattr(again, name) == value


def test_every_public_error_is_among_the_cases() -> None:
    """None is forgotten above, but the two that are only raised as one of their kinds."""
    public = {
        one
        for name, one in inspect.getmembers(errors, inspect.isclass)
        if issubclass(one, errors.HarnessError) and name in errors.__all__
    }
    assert public - {type(error) for error, _, _ in CASES} == {
        errors.HarnessError,
        errors.PromptRenderError,
    }
    assert {error.__name__ for error in public} <= set(errors.__all__)


def test_the_render_errors_have_one_root() -> None:
    """All derive from `PromptRenderError`."""
    for error in (
        errors.UnknownVariableError,
        errors.MissingVariableError,
        errors.MalformedReferenceError,
    ):
        assert issubclass(error, errors.PromptRenderError)


@pytest.mark.asyncio
async def test_an_error_with_a_live_fiber_travels_as_its_path() -> None:
    """A fiber cannot be pickled; the error still can."""
    async with Context() as root:

        def plugin(ctx: Context) -> None: ...

        fiber = root.plugin(plugin)
        await fiber.dispose()
        with pytest.raises(errors.InactiveFiberError) as caught:
            fiber.ctx.on("ping", lambda: None)
        assert caught.value.fiber is fiber
        again = pickle.loads(pickle.dumps(caught.value))
        assert again.fiber == "root/plugin"
        assert str(again) == str(caught.value)


def test_messages_say_what_would_have_been_right() -> None:
    """L10, for the errors whose text is part of the contract."""
    assert str(errors.DuplicateRegistrationError("section", "dup", "scope")) == (
        'prompt section "dup" is already registered in this scope'
    )
    globally = str(errors.DuplicateRegistrationError("section", "dup", "global"))
    assert globally.startswith('prompt section "dup" is already registered')
    assert "per-agent override" in globally
    assert "in this scope" not in globally
    unknown = str(errors.UnknownVariableError("modle", "section", "persona", ["model"]))
    assert unknown.startswith(
        'unknown prompt variable "{{modle}}" in section "persona"; registered variables: model'
    )
    assert '"{{model}}"?' in unknown
    assert str(errors.UnknownVariableError("x", "section", "p", [])) == (
        'unknown prompt variable "{{x}}" in section "p"; registered variables: (none)'
    )
    assert str(errors.MissingVariableError("cwd", "section", "s")) == (
        'prompt variable "{{cwd}}" has no value for this assembly (section "s")'
    )
