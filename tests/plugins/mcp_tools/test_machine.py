"""Any history of lists: what is registered is what the last list says, change by change."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from harness_plugins.tools.api import Tool
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from .living import Changes, call, mount, server, tree, until

NAMES = ("a", "b", "c", "two words", "native", "set_tools")
SCHEMAS: tuple[Any, ...] = (
    {"type": "object"},
    {"type": "object", "properties": {"x": {"type": "string"}}},
    {"type": "object", "properties": {"x": {"type": "strnig"}}},
    "none",
)

listed = st.builds(
    lambda name, description, schema: {
        "name": name,
        "description": description,
        "inputSchema": schema,
    },
    st.sampled_from(NAMES),
    st.sampled_from(("", "One.", "Two.")),
    st.sampled_from(SCHEMAS),
)
histories = st.lists(st.lists(listed, max_size=6), min_size=1, max_size=6)


def wanted(tools: list[dict[str, Any]]) -> dict[str, tuple[str, Any]]:
    """Return what is to be registered of a list: the model that the plugin is held against."""
    found: dict[str, tuple[str, Any] | None] = {}
    for tool in tools:
        schema = tool["inputSchema"]
        if schema == "none":
            continue  # not even a tool: it takes nobody's name
        is_good = tool["name"] not in ("two words", "native") and schema != SCHEMAS[2]
        found.setdefault(tool["name"], (tool["description"], schema) if is_good else None)
    return {name: one for name, one in found.items() if one is not None}


async def live_through(history: list[list[dict[str, Any]]]) -> None:
    end = {"name": "set_tools", "description": "", "inputSchema": {"type": "object"}}
    async with tree() as root:
        root.tools.register(Tool("native", "Native.", run=lambda _: "native"))
        await mount(root, one=server({"retry": 60, "retry_max": 60}, tools=[end]))
        changes = Changes(root)
        before = wanted([end])
        for number, tools in enumerate(history):
            mark = {**end, "name": f"mark{number}"}  # says that this list was heard
            step = [end, *tools, mark]
            await call(root, "set_tools", tools=step)
            await until(lambda mark=mark: root.tools.get(mark["name"], None))
            after = wanted(step)
            told = {
                one.name: (one.description, dict(one.parameters))
                for one in (await root.system_prompt.assemble()).tools
                if one.name != "native"
            }
            assert told == after
            gone, come = before.keys() - after.keys(), after.keys() - before.keys()
            stayed = before.keys() & after.keys()
            turned = [name for name in stayed if before[name] != after[name]]
            assert changes.taken() == len(gone) + len(come) + len(turned)
            before = after


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(histories)
def test_what_is_registered_is_what_the_last_list_says(
    history: list[list[dict[str, Any]]],
) -> None:
    """With no more changes of the prompt than there were changes."""
    anyio.run(live_through, history)


@pytest.mark.parametrize("tools", [[], [{"name": "a", "description": "", "inputSchema": "none"}]])
def test_the_model_knows_the_plainest_lists(tools: list[dict[str, Any]]) -> None:
    """A model that is wrong proves nothing."""
    assert wanted(tools) == {}
