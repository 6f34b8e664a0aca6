"""Plugin configuration: plain data in, a checked object out, every fault listed.

An attrs class is structured by cattrs with strict hooks: nothing is coerced, unknown keys are
refused. A pydantic model validates itself. Contract: section 2, "Config"; law L10.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Mapping
from typing import Any, cast, get_args, get_origin

from ..errors import ConfigError, HarnessError, closest

__all__ = ["structure"]


def structure(config_class: Any, raw: object, plugin: str) -> Any:
    """Return `raw` as an instance of `config_class`; None stands for no settings at all.

    Raises ConfigError with one line for each problem.
    """
    if isinstance(raw, config_class):
        return raw
    if raw is not None and not isinstance(raw, Mapping):
        raise ConfigError(
            [f"expected a mapping of settings, got {raw!r} ({type(raw).__name__})"],
            plugin=plugin,
        )
    data = cast("Mapping[str, Any]", raw or {})
    if hasattr(config_class, "model_validate"):
        return _with_pydantic(config_class, data, plugin)
    return _with_cattrs(config_class, data, plugin)


def _with_pydantic(config_class: Any, data: Mapping[str, Any], plugin: str) -> Any:
    from pydantic import ValidationError

    try:
        return config_class.model_validate(dict(data))
    except ValidationError as error:
        problems = [
            f"{'.'.join(str(part) for part in fault['loc']) or 'config'}: {fault['msg']}"
            for fault in error.errors()
        ]
        raise ConfigError(problems, plugin=plugin) from error


def _with_cattrs(config_class: Any, data: Mapping[str, Any], plugin: str) -> Any:
    import cattrs

    try:
        return _structure(config_class, data)
    except (cattrs.BaseValidationError, cattrs.StructureHandlerNotFoundError) as error:
        problems = cattrs.transform_error(error, path="config", format_exception=_describe)
        raise ConfigError([_shorten(problem) for problem in problems], plugin=plugin) from error
    except HarnessError:
        raise
    except Exception as error:  # a converter or validator of the class itself
        raise ConfigError([f"config: {error}"], plugin=plugin) from error


def _shorten(problem: str) -> str:
    """Put the path first, without the name of the whole: `persona: expected str, got 5`."""
    message, _, path = problem.rpartition(" @ ")
    place = path.removeprefix("config").removeprefix(".")
    return f"{place or 'config'}: {message}" if message else problem


def _describe(error: BaseException, expected: type | None) -> str:
    import cattrs

    if isinstance(error, cattrs.ForbiddenExtraKeysError):
        import attrs

        fields = attrs.fields(error.cl) if attrs.has(error.cl) else ()
        known = [field.alias for field in fields]
        parts: list[str] = []
        for key in sorted(error.extra_fields, key=str):
            guess = closest(str(key), known)
            parts.append(f"unknown key {key!r}" + (f", did you mean {guess!r}?" if guess else ""))
        return f"{'; '.join(parts)} (known keys: {', '.join(known) or 'none'})"
    if isinstance(error, KeyError):
        return f"required key {error.args[0]!r} is missing"
    if isinstance(error, cattrs.StructureHandlerNotFoundError):
        return f"expected {_name(expected)}: {error}"
    said = str(error) or type(error).__name__
    value, is_choice, choices = said.partition(" not in literal typing.Literal")
    return f"expected one of {choices}, got {value!r}" if is_choice else said


def _name(expected: object) -> str:
    return getattr(expected, "__name__", None) or str(expected)


_KEPT_ON = "__harness_structure__"


def _structure(config_class: Any, data: Mapping[str, Any]) -> Any:
    """Structure with the hook of a class, which is kept on the class itself.

    The converter is shared: making one takes longer than everything else. It remembers the classes
    it has seen, so it is made to forget them, or it would keep the config classes of plugins that
    were disposed or reloaded alive for ever (law L2).
    """
    converter = _converter()
    try:
        hook: Any = config_class.__dict__.get(_KEPT_ON)
        if hook is None:
            hook = converter.get_structure_hook(config_class, cache_result=False)
            with contextlib.suppress(AttributeError, TypeError):  # some take no attributes
                setattr(config_class, _KEPT_ON, hook)
        return hook(data, config_class)
    finally:
        # Whenever a hook is registered, what was derived from the hooks before is dropped.
        converter.register_structure_hook(str, _TEXT)


@functools.cache
def _converter() -> Any:
    from cattrs import Converter

    converter = Converter(forbid_extra_keys=True, detailed_validation=True)
    for kind, hook in (
        (str, _TEXT),
        (bool, _exactly((bool,), "bool")),
        (int, _exactly((int,), "int")),
        (bytes, _exactly((bytes,), "bytes")),
        (float, _exactly((float, int), "a number")),
    ):
        converter.register_structure_hook(kind, hook)
    _refuse_other_shapes(converter)
    return converter


def _exactly(kinds: tuple[type, ...], name: str) -> Callable[[object, object], object]:
    def hook(value: object, _: object) -> object:
        # By type and not by instance: bool is an int, and is never meant where a number is.
        if type(value) not in kinds:
            raise TypeError(f"expected {name}, got {value!r} ({type(value).__name__})")
        return value

    return hook


_TEXT = _exactly((str,), "str")


def _is_uniform_tuple(kind: Any) -> bool:
    origin: object = get_origin(kind)
    return origin is tuple and get_args(kind)[-1:] == (...,)


def _refuse_other_shapes(converter: Any) -> None:
    """A string or a mapping can be iterated, and is never meant where a list is, nor a list where
    a mapping is."""
    import attrs
    from cattrs import cols

    library: Any = cols  # its annotations say less than strict checking asks for
    shapes: tuple[tuple[Any, Any, tuple[type, ...], str], ...] = (
        (library.is_sequence, library.list_structure_factory, _LISTS, "a list"),
        (_is_uniform_tuple, library.homogenous_tuple_structure_factory, _LISTS, "a list"),
        (library.is_mapping, library.mapping_structure_factory, (Mapping,), "a mapping"),
        (attrs.has, _settings_factory, (Mapping,), "a mapping of settings"),
    )
    for predicate, factory, kinds, name in shapes:
        converter.register_structure_hook_factory(predicate, _guarded(factory, kinds, name))


_LISTS = (list, tuple, set, frozenset)


def _settings_factory(kind: Any, converter: Any) -> Any:
    return converter.gen_structure_attrs_fromdict(kind)


def _guarded(
    factory: Callable[[Any, Any], Any], kinds: tuple[type, ...], name: str
) -> Callable[[Any, Any], Any]:
    """Return a factory of hooks that take nothing but values of these kinds."""

    def make(kind: Any, for_converter: Any) -> Any:
        plain = factory(kind, for_converter)

        def hook(value: object, expected: object) -> object:
            if not isinstance(value, kinds):
                raise TypeError(f"expected {name}, got {value!r} ({type(value).__name__})")
            return plain(value, expected)

        return hook

    return make
