"""Config is checked before the body runs: nothing coerced, every fault listed with its path."""

from __future__ import annotations

import gc
import typing
import weakref
from typing import Any

import attrs
import pydantic
import pytest

from harness_core import Context, FiberState
from harness_core.errors import ConfigError
from harness_core.kernel.config import structure

pytestmark = pytest.mark.asyncio


@attrs.frozen
class Server:
    """A nested class."""

    host: str
    port: int = 80


@attrs.frozen
class Settings:
    """Every kind of field."""

    name: str = "n"
    size: int = 1
    ratio: float = 0.5
    strict: bool = False
    tags: list[str] = attrs.field(factory=list)
    limits: dict[str, int] = attrs.field(factory=dict)
    server: Server | None = None
    servers: list[Server] = attrs.field(factory=list)
    maybe: str | None = None


def plugin_of(config_class: Any) -> tuple[Any, list[Any]]:
    """Return a plugin with this `Config`, and what its body got."""
    got: list[Any] = []

    def plugin(ctx: Context, config: Any) -> None:
        got.append(config)

    plugin.Config = config_class  # type: ignore[attr-defined]
    return plugin, got


async def problems(raw: Any, config_class: Any = Settings) -> list[str]:
    """Mount with a wrong config; return the problems, having seen that nothing ran."""
    plugin, got = plugin_of(config_class)
    async with Context() as root:
        fiber = root.plugin(plugin, raw)
        assert fiber.state is FiberState.FAILED
        with pytest.raises(ConfigError) as caught:
            await fiber
        assert caught.value is fiber.error
        assert isinstance(caught.value, ValueError)
        assert got == []
        assert fiber.effects() == []
        lines = str(caught.value).splitlines()
        assert 'plugin "plugin"' in lines[0]
        assert [line.strip() for line in lines[1:]] == caught.value.problems
        return caught.value.problems


async def test_a_config_is_structured_with_its_defaults() -> None:
    """Nested classes, lists and mappings become what the class says."""
    plugin, got = plugin_of(Settings)
    async with Context() as root:
        raw = {
            "size": 2,
            "tags": ["a"],
            "limits": {"x": 1},
            "server": {"host": "h"},
            "servers": [{"host": "a"}, {"host": "b", "port": 1}],
            "ratio": 1,
        }
        fiber = await root.plugin(plugin, raw)
        assert got == [
            Settings(
                size=2,
                tags=["a"],
                limits={"x": 1},
                server=Server("h"),
                servers=[Server("a"), Server("b", 1)],
                ratio=1,
            )
        ]
        assert fiber.config is got[0]


async def test_no_config_is_all_defaults_and_an_instance_is_taken_as_it_is() -> None:
    """None stands for no settings; a ready instance of `Config` passes."""
    plugin, got = plugin_of(Settings)
    async with Context() as root:
        await root.plugin(plugin)
        ready = Settings(size=9)
        await root.plugin(plugin, ready)
        assert got == [Settings(), ready]
        assert got[1] is ready


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        ({"server": "h"}, "server: expected a mapping of settings, got 'h' (str)"),
        ({"servers": ["h"]}, "servers[0]: expected a mapping of settings, got 'h' (str)"),
        ({"limits": [1]}, "limits: expected a mapping, got [1] (list)"),
        ({"limits": None}, "limits: expected a mapping, got None (NoneType)"),
        ({"tags": {"a": 1}}, "tags: expected a list, got {'a': 1} (dict)"),
    ],
)
async def test_another_shape_is_said_in_plain_words(raw: Any, said: str) -> None:
    assert await problems(raw) == [said]


@pytest.mark.parametrize(
    ("field", "value", "expected"),
    [
        ("size", "5", "int"),
        ("size", 5.0, "int"),
        ("size", True, "int"),
        ("size", None, "int"),
        ("name", 5, "str"),
        ("name", None, "str"),
        ("ratio", "0.5", "a number"),
        ("ratio", True, "a number"),
        ("strict", 1, "bool"),
        ("strict", "yes", "bool"),
        ("tags", "abc", "a list"),
        ("tags", {"a": 1}, "a list"),
    ],
)
async def test_nothing_is_coerced(field: str, value: object, expected: str) -> None:
    """Each fault says the path, what was expected and what came."""
    assert await problems({field: value}) == [
        f"{field}: expected {expected}, got {value!r} ({type(value).__name__})"
    ]


async def test_unknown_keys_are_refused_with_the_known_ones_and_a_guess() -> None:
    """L10: it says what would have been right."""
    (problem,) = await problems({"sise": 1})
    assert "unknown key 'sise'" in problem
    assert "did you mean 'size'" in problem
    assert "known keys: name, size, ratio" in problem


async def test_every_problem_is_listed_with_its_path() -> None:
    """One line each, at any depth."""
    found = await problems(
        {
            "size": "big",
            "tags": ["ok", 5],
            "server": {"port": "80"},
            "servers": [{"host": "a"}, {"host": 1, "x": 2}],
            "limits": {"x": "1"},
            "nonsense": 1,
        }
    )
    starts = {
        "size: expected int",
        "tags[1]: expected str",
        "server.port: expected int",
        "servers[1].host: expected str",
        "limits['x']: expected int",
    }
    assert all(any(problem.startswith(start) for problem in found) for start in starts), found
    assert any("server" in one and "'host'" in one and "missing" in one for one in found), found
    assert any("servers[1]" in one and "unknown key 'x'" in one for one in found), found
    assert any("unknown key 'nonsense'" in one for one in found), found
    assert len(found) == 8


@pytest.mark.parametrize("raw", [5, "text", ["a", "list"]], ids=repr)
async def test_a_config_that_is_no_mapping(raw: object) -> None:
    """A list where a mapping belongs."""
    (problem,) = await problems(raw)
    assert "expected a mapping" in problem
    assert repr(raw) in problem


async def test_a_required_key() -> None:
    """A field without a default must be given, and is named."""
    (problem,) = await problems({}, Server)
    assert "required key 'host' is missing" in problem


async def test_a_validator_of_the_class_is_a_config_error() -> None:
    """What the class itself refuses is listed like the rest."""

    @attrs.frozen
    class Positive:
        size: int = attrs.field(validator=attrs.validators.gt(0))

    (problem,) = await problems({"size": -1}, Positive)
    assert "size" in problem
    assert "-1" in problem


async def test_a_pydantic_model_validates_itself() -> None:
    """A model works as `Config` where pydantic is installed, faults listed with their paths."""

    class Inner(pydantic.BaseModel):
        host: str

    class Model(pydantic.BaseModel):
        model_config = pydantic.ConfigDict(extra="forbid", strict=True)
        size: int = 1
        inner: Inner | None = None

    plugin, got = plugin_of(Model)
    async with Context() as root:
        await root.plugin(plugin, {"size": 2, "inner": {"host": "h"}})
        assert got == [Model(size=2, inner=Inner(host="h"))]
    found = await problems({"size": "2", "inner": {}, "more": 1}, Model)
    assert {problem.split(":")[0] for problem in found} == {"size", "inner.host", "more"}


async def test_a_plugin_without_config_class_gets_the_mapping() -> None:
    """And an empty one where none was given."""
    got: list[object] = []

    def plugin(ctx: Context, config: object) -> None:
        got.append(config)

    async with Context() as root:
        root.plugin(plugin)
        root.plugin(plugin, {"a": 1})
        assert got == [{}, {"a": 1}]


async def test_a_failed_config_can_be_put_right_by_an_update() -> None:
    """FAILED is not the end: a valid config starts the body."""
    plugin, got = plugin_of(Settings)
    async with Context() as root:
        fiber = root.plugin(plugin, {"size": "x"})
        await fiber.update({"size": 3})
        assert fiber.state is FiberState.ACTIVE
        assert got == [Settings(size=3)]


async def test_what_was_structured_is_let_go_although_all_share_a_converter() -> None:
    """Config classes of a plugin that was disposed, and the classes in them (law L2)."""

    def make() -> list[weakref.ref[type]]:
        @attrs.frozen
        class Inner:
            size: int

        @attrs.frozen
        class Outer:
            inner: Inner
            more: list[Inner] = attrs.field(factory=list)
            named: dict[str, Inner] = attrs.field(factory=dict)
            maybe: Inner | None = None

        attrs.resolve_types(Outer, localns={"Inner": Inner})
        raw = {
            "inner": {"size": 1},
            "more": [{"size": 2}],
            "named": {"a": {"size": 3}},
            "maybe": {"size": 4},
        }
        for _ in range(2):
            found = structure(Outer, raw, "plugin")
            assert found.maybe == Inner(4)
        with pytest.raises(ConfigError):
            structure(Outer, {"inner": {"size": "1"}}, "plugin")
        return [weakref.ref(Inner), weakref.ref(Outer)]

    classes = make()
    gc.collect()
    # Python itself keeps some generic aliases, such as `list[Inner]`, in a cache of its own.
    typing_cache_clear()
    gc.collect()
    assert [found() for found in classes] == [None, None]


def typing_cache_clear() -> None:
    """Empty the caches of `typing`."""
    for clear in getattr(typing, "_cleanups", ()):
        clear()


async def test_a_wrong_choice_lists_the_choices_in_plain_words() -> None:
    @attrs.frozen
    class Settings:
        pace: typing.Literal["slow", "fast"] = "slow"

    def plugin(ctx: Context, config: Settings) -> None: ...

    plugin.Config = Settings  # type: ignore[attr-defined]
    async with Context() as root:
        with pytest.raises(ConfigError) as caught:
            await root.plugin(plugin, pace="quick")
    assert caught.value.problems == ["pace: expected one of ['slow', 'fast'], got 'quick'"]
