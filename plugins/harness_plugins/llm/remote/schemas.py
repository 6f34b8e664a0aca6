"""Schemas of tools, as providers want them: an object at the top, all else unchanged."""

from __future__ import annotations

import json
from typing import Any

from harness_core.prompt import ToolSchema

from ..errors import ModelError

__all__ = ["object_schema"]


def object_schema(tool: ToolSchema, provider: str) -> dict[str, Any]:
    """Return a copy of a tool's schema whose top says `"type": "object"`.

    The arguments of a call always are an object, so saying it where the schema left it open, or
    allowed more, loses nothing. Everything below stays as it is: `$ref`, `$defs`, `anyOf`,
    formats. Raises ModelError of kind "invalid-request" for a schema that allows no object.
    """
    schema: dict[str, Any] = json.loads(json.dumps(tool.parameters))
    kind = schema.get("type", "object")
    if kind != "object" and not (isinstance(kind, list) and "object" in kind):
        raise ModelError(
            f'the arguments of the tool "{tool.name}" are of type {json.dumps(kind)} (in '
            "parameters.type), and a model can only send an object: make the schema an object "
            "that has this value as a property",
            kind="invalid-request",
            provider=provider,
        )
    if kind == "object" and "type" in schema and "properties" in schema:
        return schema
    rest = {key: value for key, value in schema.items() if key not in ("type", "properties")}
    return {"type": "object", "properties": schema.get("properties", {}), **rest}
