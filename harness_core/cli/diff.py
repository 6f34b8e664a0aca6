"""`harness prompt --diff FILE`: what changed since `--json` was saved."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from ..loader import as_dict
from .faults import Fault, Faulty
from .safe import one_line

__all__ = ["read_saved", "show_difference"]

_STYLES = {"+": "green", "-": "red", "@": "cyan"}


def read_saved(file: str) -> dict[str, dict[str, Any]]:
    """Return the scopes that were saved; raise Faulty for anything else."""
    try:
        data = json.loads(Path(file).read_text(encoding="utf-8"))
    except json.JSONDecodeError as error:
        where = f"{file}:{error.lineno}:{error.colno}"
        raise Faulty([Fault(f"not JSON: {error.msg}", where)]) from None
    except (OSError, UnicodeDecodeError) as error:
        raise Faulty([Fault(f"cannot be read: {error}", file)]) from None
    scopes = as_dict((as_dict(data) or {}).get("scopes"))
    if scopes is None or not all(map(_is_scope, scopes.values())):
        raise Faulty([Fault("not what `harness prompt --json` prints", file)])
    return scopes


def _is_scope(value: object) -> bool:
    scope = as_dict(value)
    return (
        scope is not None
        and isinstance(scope.get("system"), str)
        and isinstance(scope.get("snapshot"), str)
        and isinstance(scope.get("tools"), list)
    )


def show_difference(
    console: Console,
    before: dict[str, dict[str, Any]],
    after: dict[str, dict[str, Any]],
    *,
    only: str | None,
) -> int:
    """Print what changed in each scope, and how much a prompt cache can reuse; return 0."""
    changed = False
    for name in dict.fromkeys([*after, *(before if only is None else ())]):
        lines = list(_lines(before.get(name), after.get(name)))
        changed = changed or bool(lines)
        if lines:
            console.print(Text(f"{one_line(name)}", style="bold"))
        for line in lines:
            console.print(
                Text(f"  {one_line(line)}", style=_STYLES.get(line[:1], "")), soft_wrap=True
            )
    if not changed:
        console.print("nothing changed")
    return 0


def _lines(old: dict[str, Any] | None, new: dict[str, Any] | None) -> Iterator[str]:
    if old is None or new is None:
        yield "+ the scope is new" if old is None else "- the scope is gone"
        return
    for part in ("system", "snapshot"):
        yield from _text_lines(part, old[part], new[part])
    yield from _tool_lines(old["tools"], new["tools"])
    before, after = _request(old), _request(new)
    if before != after:
        same = _same_prefix(before, after)
        yield f"the first {same} of {len(after)} characters are the same"


def _same_prefix(before: str, after: str) -> int:
    return sum(
        1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(before, after, strict=False))
    )


def _text_lines(part: str, old: str, new: str) -> Iterator[str]:
    lines = difflib.unified_diff(
        old.split("\n"), new.split("\n"), f"{part} before", f"{part} now", n=1, lineterm=""
    )
    yield from lines


def _tool_lines(old: list[Any], new: list[Any]) -> Iterator[str]:
    before = {tool["name"]: tool for tool in old}
    after = {tool["name"]: tool for tool in new}
    for name in before:
        if name not in after:
            yield f"- tool {name}"
    for name, tool in after.items():
        if name not in before:
            yield f"+ tool {name}"
        elif tool != before[name]:
            fields = [field for field in tool if tool[field] != before[name].get(field)]
            yield f"+ tool {name}: {', '.join(fields)} changed"


def _request(scope: dict[str, Any]) -> str:
    return "\n\n".join([scope["system"], json.dumps(scope["tools"]), scope["snapshot"]])
