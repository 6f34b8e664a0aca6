"""The fields of attrs classes, dataclasses and typed dictionaries, as one record each."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Callable, Mapping
from typing import Any

import attrs

from harness_core.errors import PluginError

__all__ = ["NO_DEFAULT", "Field", "fields_of", "hints_of", "is_record"]

NO_DEFAULT: Any = object()


@attrs.frozen
class Field:
    """A named value: a parameter, or a field of a class."""

    name: str
    kind: Any
    is_required: bool
    default: Any = NO_DEFAULT
    description: str = ""

    @property
    def has_default(self) -> bool:
        """Whether there is a default that can be shown: one made by a factory cannot."""
        return self.default is not NO_DEFAULT


def is_record(kind: Any) -> bool:
    """Whether a type is a class whose fields are known."""
    if not isinstance(kind, type):
        return False
    known: Any = kind
    return attrs.has(known) or dataclasses.is_dataclass(known) or typing.is_typeddict(known)


def fields_of(kind: Any, names: Mapping[str, Any]) -> list[Field]:
    """Return the fields that are given when an instance is made, in order.

    `names` are names that annotations may use and that only the surroundings know.
    """
    hints = hints_of(kind, {**names, kind.__name__: kind})
    if typing.is_typeddict(kind):
        return [_key(name, hint, kind) for name, hint in hints.items()]
    if attrs.has(kind):
        return [_attrs_field(one, hints) for one in attrs.fields(kind) if one.init]
    return [_dataclass_field(one, hints) for one in dataclasses.fields(kind) if one.init]


def _key(name: str, hint: Any, kind: Any) -> Field:
    # Where annotations are text, the class itself does not know which keys are not required.
    origin = typing.get_origin(hint)
    if origin is typing.Required or origin is typing.NotRequired:
        return Field(name, typing.get_args(hint)[0], origin is typing.Required)
    return Field(name, hint, name in kind.__required_keys__)


def _attrs_field(field: Any, hints: Mapping[str, Any]) -> Field:
    kind = hints.get(field.name, Any)
    if field.default is attrs.NOTHING:
        return Field(field.alias, kind, True)
    default = NO_DEFAULT if isinstance(field.default, attrs.Factory) else field.default  # type: ignore[arg-type]
    return Field(field.alias, kind, False, default)


def _dataclass_field(field: Any, hints: Mapping[str, Any]) -> Field:
    missing = dataclasses.MISSING
    kind = hints[field.name]
    if field.default is missing and field.default_factory is missing:
        return Field(field.name, kind, True)
    return Field(field.name, kind, False, NO_DEFAULT if field.default is missing else field.default)


def hints_of(thing: Callable[..., Any] | type, names: Mapping[str, Any]) -> dict[str, Any]:
    """Return the evaluated annotations; `names` are asked where the module does not know one.

    Raises PluginError for a name that cannot be found.
    """
    try:
        return typing.get_type_hints(thing, include_extras=True)
    except NameError:
        pass
    try:
        return typing.get_type_hints(thing, localns=dict(names), include_extras=True)
    except NameError as error:
        name = getattr(thing, "__qualname__", repr(thing))
        raise PluginError(
            f"the annotations of {name} name {error.name!r}, which is not defined where they are "
            "read: define it at the top of the module"
        ) from error
