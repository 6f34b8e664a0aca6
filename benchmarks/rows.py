"""What is measured: every row as plain JSON data, so that Python and Node build the same work.

A `Row` holds the work and the goals. Nothing here knows how any subject does the work; the words
of the description (`sections`, `scopes`, `listeners`, ...) are read by `floor`, `ours`, `peers` and
by `original/driver.mjs`.
"""

from __future__ import annotations

from typing import Any, Final

import attrs

Work = dict[str, Any]
"""A JSON object that describes the work of one row; its `kind` says which builder reads it."""

TICK: Final = "bench/tick"
FLOW: Final = "bench/flow"


@attrs.frozen
class Row:
    """One line of the table: the work, its unit and what it should reach."""

    name: str
    title: str
    work: Work = attrs.field(repr=False)
    floor_at_most: float | None = None
    original_at_least: float | None = None
    absolute_at_most: float | None = None
    """Nanoseconds for a timed row, bytes for a memory row."""
    flat_against: str | None = None
    """The row with fewer scopes that this one may cost at most `FLAT` times as much as."""

    @property
    def kind(self) -> str:
        """Which builder understands `work`."""
        return str(self.work["kind"])

    @property
    def is_memory(self) -> bool:
        """Whether the row counts bytes and not nanoseconds."""
        return self.kind == "memory"


FLAT: Final = 1.25


def _section(name: str, text: object, order: float = 10) -> Work:
    return {"name": name, "text": text, "order": order}


def _by_provider(prefix: str) -> Work:
    """A text that a provider makes for each assembly: the prefix and the id of the scope."""
    return {"provider": prefix}


def _tool(index: int) -> Work:
    """A tool with a schema of six properties, of the kinds that real tools have."""
    properties: Work = {
        "path": {"type": "string", "description": f"File that step {index} works on"},
        "pattern": {"type": "string", "minLength": 1},
        "limit": {"type": "integer", "minimum": 1, "maximum": 2000, "default": 100},
        "recursive": {"type": "boolean", "default": False},
        "kinds": {"type": "array", "items": {"type": "string", "enum": ["file", "dir", "link"]}},
        "options": {
            "type": "object",
            "properties": {"depth": {"type": "integer"}, "follow": {"type": "boolean"}},
            "additionalProperties": False,
        },
    }
    return {
        "name": f"tool_{(index * 7919) % 1000:03d}_{index:03d}",
        "description": f"Does step {index} of the work and reports what it found.",
        "parameters": {"type": "object", "properties": properties, "required": ["path"]},
    }


def _assembly(**parts: Any) -> Work:
    """An assembly of these parts; whatever is not given is empty."""
    work: Work = {
        "kind": "assemble",
        "persona": "You are a careful engineer.",
        "tool_order": None,
        "sections": [],
        "contexts": [],
        "variables": {},
        "tools": [],
        "scopes": [],
        "listeners": [],
        "targets": [None],
    }
    work.update(parts)
    return work


def _scope(identity: str, parent: str | None, sections: list[Work], **variables: str) -> Work:
    return {"id": identity, "parent": parent, "sections": sections, "variables": variables}


def _real() -> Work:
    """A prompt of the size and shape of a working coding agent."""
    variables = {f"fact_{i}": f"value {i}" for i in range(12)}
    fixed = [
        _section(f"rules:{i}", f"Rule {i}: heed {{{{fact_{i % 12}}}}} at all times.\nLine two.", i)
        for i in range(20)
    ]
    provided = [
        _section(f"live:{i}", _by_provider(f"Live {i} ({{{{fact_{i}}}}}) for agent "), 100 + i)
        for i in range(10)
    ]
    contexts = [
        _section(f"state:{i}", _by_provider(f"State {i}: ") if i % 2 else f"Fixed state {i}", i)
        for i in range(8)
    ]
    tools = [_tool(i) for i in range(40)]
    names = [tool["name"] for tool in tools]
    parent = [_section(f"rules:{i}", f"Parent rule {i} on {{{{fact_{i}}}}}.", i) for i in (1, 2, 3)]
    child = [_section(f"rules:{i}", f"Child rule {i} on {{{{fact_{i}}}}}.", i) for i in (3, 4, 5)]
    return _assembly(
        persona="You are {{fact_0}}, an engineer.",
        tool_order=[names[3], names[1], "<unlisted-tools>", names[2]],
        sections=fixed + provided,
        contexts=contexts,
        variables=variables,
        tools=tools,
        scopes=[_scope("parent", None, parent), _scope("child", "parent", child)],
        listeners=[
            {"behaviour": "append_section", "name": "late", "text": "Added late: {{fact_1}}."},
            {"behaviour": "mutate_text", "name": "rules:9", "text": " Amended."},
            {"behaviour": "after_append_context", "name": "seen", "text": "Seen by a listener."},
        ],
        targets=["child"],
    )


def _wide() -> Work:
    return _assembly(
        sections=[
            _section(
                f"part:{i}",
                f"Part {i} speaks of {{{{fact_{i % 20}}}}} at some length.",
                (i * 37) % 200,
            )
            for i in range(1000)
        ],
        variables={f"fact_{i}": f"value {i}" for i in range(20)},
        tools=[_tool(i) for i in range(100)],
    )


def _agent(index: int) -> Work:
    """What one agent's scope holds in the rows with many scopes."""
    sections = [
        _section("role", f"You are agent {{{{agent}}}}, number {index}.", 20),
        _section("task", f"Your task has the number {index}.", 30),
        _section("limits", f"Keep to area {index}.", 40),
    ]
    return _scope(f"agent-{index}", None, sections, agent=f"name-{index}")


def _agents(count: int) -> Work:
    scopes = [_agent(i) for i in range(count)]
    return _assembly(scopes=scopes, targets=[scope["id"] for scope in scopes])


def _deep(depth: int) -> Work:
    def layer(level: int) -> list[Work]:
        return [_section(f"part:{i}", f"Part {i} at depth {level}.", i + 1) for i in range(5)]

    scopes = [_scope(f"level-{i}", f"level-{i - 1}" if i else None, layer(i)) for i in range(depth)]
    return _assembly(sections=layer(-1), scopes=scopes, targets=[f"level-{depth - 1}"])


def _emit_scoped(count: int) -> Work:
    return {"kind": "emit_scoped", "scopes": count, "target": count // 2}


ROWS: Final[tuple[Row, ...]] = (
    Row("small", "persona only; assemble and render", _assembly(), 3, 3),
    Row("real", "30 sections, 8 contexts, 12 variables, 40 tools, 3 listeners", _real(), 2, 8),
    Row("wide", "1,000 sections with a reference each, 100 tools", _wide(), 1.7, 3),
    Row("agents", "assemble for one of 1,000 live scopes", _agents(1000), 2.5, 3),
    Row("deep", "a chain of 50 scopes shadowing five sections", _deep(50), 2, 2),
    Row("emit10", "emit to 10 listeners", {"kind": "emit", "listeners": 10}, 3, 10),
    Row("emit-scoped-10", "emit to one of 10 scopes", _emit_scoped(10)),
    Row(
        "emit-scoped",
        "emit to one of 1,000 scopes, a listener each",
        _emit_scoped(1000),
        original_at_least=25,
        flat_against="emit-scoped-10",
    ),
    Row(
        "emit-scoped-10k",
        "emit to one of 10,000 scopes",
        _emit_scoped(10_000),
        flat_against="emit-scoped-10",
    ),
    Row(
        "waterfall10",
        "waterfall through 10 async listeners",
        {"kind": "waterfall", "listeners": 10},
        2,
        4,
    ),
    Row(
        "mount",
        "mount 3 sections, a variable, a listener; dispose",
        {"kind": "mount", "live": 1},
        3,
        12,
    ),
    Row(
        "mount-live",
        "the same, 1,000 plugins live at once; per plugin",
        {"kind": "mount", "live": 1000},
        3,
        12,
    ),
    Row(
        "scope",
        "mint a scope, 3 sections, dispose; beside 1,000 others",
        {"kind": "scope", "beside": [_agent(i) for i in range(1000)], "own": _agent(1000)},
        3,
        8,
    ),
    Row("read", "read a bound service", {"kind": "read"}, absolute_at_most=300),
    Row(
        "memory",
        "a live scope with 3 sections and a variable",
        {"kind": "memory", "scopes": [_agent(i) for i in range(1000)], "assemble": False},
        original_at_least=3,
        absolute_at_most=6 * 1024,
    ),
    Row(
        "memory-used",
        "the same, after one assembly in each scope",
        {"kind": "memory", "scopes": [_agent(i) for i in range(1000)], "assemble": True},
    ),
)
"""The rows in the order of the table."""


def row_named(name: str) -> Row:
    """Return the row of that name, or raise a `LookupError` that lists the known ones."""
    for row in ROWS:
        if row.name == name:
            return row
    raise LookupError(f"no row {name!r}; rows: {', '.join(row.name for row in ROWS)}")
