"""Tool schemas: what a model is told that it can call, and what a provider of them returns.

Contract: section 5, "Tools".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast

import attrs

from ..errors import ContributionError, InvalidSchemaError, safe_repr
from .frozen import EMPTY_PARAMETERS, freeze
from .origin import Origin, OriginSource

__all__ = ["ToolProviderResult", "ToolSchema"]


def _as_parameters(value: Any) -> Mapping[str, Any]:
    return EMPTY_PARAMETERS if value is None else value


@attrs.frozen
class ToolSchema:
    """A tool as the model is told of it: `parameters` is a JSON schema, made read-only here.

    The parameters equal, and serialise like, the plain dicts and lists they came from, which are
    never kept. To change a tool, replace it: `attrs.evolve(tool, description=...)`. Raises
    InvalidSchemaError for what JSON cannot carry. A provider that passes on other plugins' tools
    names them with `source`; without it, the provider is their origin.
    """

    name: str
    description: str = ""
    parameters: Mapping[str, Any] = attrs.field(default=None, converter=_as_parameters)
    source: OriginSource | None = attrs.field(default=None, eq=False, repr=False)

    def __attrs_post_init__(self) -> None:
        if not isinstance(self.name, str) or not isinstance(self.description, str):
            raise ContributionError(
                f"a tool schema needs name and description as str, got {self.name!r} and "
                f"{self.description!r}"
            )
        given: object = self.parameters
        if not isinstance(given, Mapping):
            problem = f"expected a JSON object, got {safe_repr(given)} ({type(given).__name__})"
            raise InvalidSchemaError(self.name, "parameters", problem)
        object.__setattr__(self, "parameters", freeze(given, self.name))

    @property
    def origin(self) -> Origin | None:
        """Whose provider gave it; None for what a listener added."""
        return self.source.origin() if self.source is not None else None

    @classmethod
    def of(cls, schema: Any) -> ToolSchema:
        """Return a schema given as a ToolSchema or as a mapping with the same keys."""
        if isinstance(schema, ToolSchema):
            return schema
        if not isinstance(schema, Mapping):
            raise ContributionError(
                f"expected a ToolSchema or a mapping, got {schema!r} ({type(schema).__name__})"
            )
        given = cast("Mapping[str, Any]", schema)
        if "name" not in given or not given.keys() <= {"name", "description", "parameters"}:
            raise ContributionError(
                "a tool schema has the keys name, description and parameters, got "
                f"{sorted(map(str, given))}"
            )
        return cls(**given)


@attrs.frozen
class ToolProviderResult:
    """What a tool provider returns: the visible schemas, and all names before restriction.

    `known_names` defaults to the names of `schemas`; `tool_order` is checked against it. `through`
    says, for a tool that calls others, which tools can be called through it: what requires one of
    these takes part, although no schema of it may be shown.
    """

    schemas: Iterable[Any]
    known_names: Iterable[str] | None = None
    through: Mapping[str, Iterable[str]] = attrs.field(factory=dict[str, Iterable[str]])
