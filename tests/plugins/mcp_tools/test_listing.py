"""What a server lists is what the model is told of, at each moment, and nothing else."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from harness_plugins.tools.api import Tool

from .living import Changes, Reports, asked, call, mount, names, server, tree, until

pytestmark = pytest.mark.asyncio

RICH: dict[str, Any] = {
    "type": "object",
    "$defs": {"Größe": {"enum": ["klein", "groß", None]}},
    "properties": {
        "size": {"$ref": "#/$defs/Größe"},
        "when": {"anyOf": [{"type": "string", "format": "date-time"}, {"type": "null"}]},
        "ratio": {"type": "number", "default": 1.0, "x-unknown": {"b": [], "a": True}},
    },
    "required": ["size"],
    "additionalProperties": False,
}


def tool(name: str, description: str = "", schema: Any = None, **more: Any) -> dict[str, Any]:
    """Return a tool as it stands in a listing."""
    schema = {"type": "object"} if schema is None else schema
    return {"name": name, "description": description, "inputSchema": schema, **more}


async def test_a_schema_goes_through_as_it_is() -> None:
    """Byte for byte, with references, unknown keywords and what is not ASCII."""
    async with tree() as root:
        await mount(root, one=server(tools=[tool("rich", "Tüchtig.", RICH)]))
        (schema,) = (await root.system_prompt.assemble()).tools
        assert (schema.name, schema.description) == ("rich", "Tüchtig.")
        assert json.dumps(schema.parameters) == json.dumps(RICH)


async def test_a_description_may_be_missing_and_a_title_stands_in() -> None:
    """A tool needs neither."""
    bare = {"name": "bare", "inputSchema": {"type": "object"}}
    async with tree() as root:
        await mount(root, one=server(tools=[bare, {**bare, "name": "titled", "title": "Title"}]))
        told = {one.name: one.description for one in (await root.system_prompt.assemble()).tools}
        assert told == {"bare": "", "titled": "Title"}


async def test_a_list_is_read_to_its_last_page() -> None:
    """However many there are."""
    async with tree() as root:
        await mount(root, one=server(tools=[f"tool{n:04}" for n in range(450)], page=100))
        assert names(root) == [f"tool{n:04}" for n in range(450)]


async def test_a_list_without_an_end_is_given_up() -> None:
    """And said to be one."""
    async with tree() as root:
        reports = Reports(root)
        await mount(root, one=server({"retry": 60, "retry_max": 60}, circles=True))
        assert names(root) == []
        assert "goes round in circles" in str(reports)


async def test_a_prefix_stands_before_each_name_and_the_server_never_sees_it() -> None:
    """Two servers may offer the same."""
    async with tree() as root:
        await mount(root, one=server({"prefix": "a_"}), two=server({"prefix": "b_"}))
        assert names(root) == ["a_echo", "b_echo"]
        assert (await call(root, "b_echo", word="hi")).text == '{"word": "hi"}'


async def test_a_name_that_another_server_has_is_refused_and_both_are_named() -> None:
    """The other tools stand."""
    async with tree() as root:
        reports = Reports(root)
        await mount(root, one=server(tools=["dup"]))
        await mount(root, two=server(tools=["dup", "own"]))
        assert names(root) == ["dup", "own"]
        ((who, said),) = reports.errors
        assert who == "mcp:two"
        assert 'tool "dup" is already registered' in said
        assert 'plugin "mcp:one" has it' in said
        assert 'plugin "mcp:two" wants it' in said


async def test_a_name_that_a_native_tool_has_is_refused() -> None:
    """By the same rule, whoever comes first."""
    async with tree() as root:
        reports = Reports(root)
        native = root.tools.register(Tool("dup", "Native.", run=lambda _: "native"))
        await mount(root, one=server(tools=["dup", "set_tools"]))
        assert (await call(root, "dup")).text == "native"
        assert 'plugin "root" has it' in str(reports)
        await native()
        assert names(root) == ["set_tools"]
        await call(root, "set_tools")  # the next listing finds the name free
        await until(lambda: names(root) == ["dup", "set_tools"])


BAD = {
    "listed twice": (["dup", "dup"], ["dup"], 'lists tool "dup" twice'),
    "empty name": ([tool("")], [], "invalid tool name ''"),
    "name that no model may say": ([tool("two words")], [], "two words"),
    "reserved name": ([tool("<unlisted-tools>")], [], "<unlisted-tools>"),
    "no schema": ([{"name": "bad"}], [], '"bad" that is none: inputSchema'),
    "schema that is none": ([tool("bad", schema={"type": "object", "required": 5})], [], "bad"),
    "schema of no object": ([tool("bad", schema={"type": "string"})], [], "bad"),
    "schema that leads nowhere": (
        [tool("bad", schema={"type": "object", "properties": {"a": {"$ref": "#/$defs/A"}}})],
        [],
        "leads nowhere",
    ),
    "unknown type": (
        [tool("bad", schema={"type": "object", "properties": {"a": {"type": "strnig"}}})],
        [],
        "strnig",
    ),
    "no tool at all": (["other", 5, None], ["other"], "(without a name)"),
    "name that is no text": ([tool(5)], [], "(without a name)"),  # type: ignore[arg-type]
    "output schema that is none": ([tool("bad", outputSchema=[])], [], "outputSchema"),
}


@pytest.mark.parametrize(("bad", "kept", "said"), BAD.values(), ids=BAD)
async def test_a_bad_tool_is_left_out_and_reported_and_the_others_stand(
    bad: list[Any], kept: list[str], said: str
) -> None:
    """Whatever is wrong with it."""
    async with tree() as root:
        reports = Reports(root)
        await mount(root, one=server(tools=["first", *bad, "last"]))
        assert names(root) == sorted(["first", *kept, "last"])
        assert said in str(reports)
        assert {who for who, _ in reports.errors} == {"mcp:one"}


async def test_one_change_of_a_list_is_one_change_of_the_prompt() -> None:
    """A tool that comes, and one that goes."""
    async with tree() as root:
        await mount(root, one=server(tools=["set_tools", "a"]))
        changes = Changes(root)
        await call(root, "set_tools", tools=["set_tools", "a", "b"])
        await until(lambda: "b" in names(root))
        assert changes.taken() == 1
        await call(root, "set_tools", tools=["set_tools", "b"])
        await until(lambda: "a" not in names(root))
        assert changes.taken() == 1


async def test_a_tool_that_changes_is_never_missing() -> None:
    """Neither for a listener of the change that assembles, nor for anybody else."""
    async with tree() as root:
        await mount(root, one=server(tools=["set_tools", tool("a", "Old.")]))
        told: list[str] = []

        @root.on("system-prompt/change", unfiltered=True)
        async def assemble() -> None:
            tools = (await root.system_prompt.assemble()).tools
            told.extend(one.description for one in tools if one.name == "a")

        await call(root, "set_tools", tools=["set_tools", tool("a", "New.")])
        await until(lambda: told)
        assert set(told) == {"New."}


async def test_a_change_of_schema_alone_is_a_change() -> None:
    """`true` is not 1, though Python thinks so."""

    def listed(default: object) -> list[Any]:
        schema = {"type": "object", "properties": {"a": {"default": default}}}
        return ["set_tools", tool("a", schema=schema)]

    async with tree() as root:
        await mount(root, one=server(tools=listed(1)))
        await call(root, "set_tools", tools=listed(True))
        await until(
            lambda: root.tools.get("a", None).parameters["properties"]["a"]["default"] is True
        )


async def test_a_notice_without_a_change_changes_nothing() -> None:
    """However often it comes; another order of keys is no change either."""
    schema = {"type": "object", "properties": {}, "title": "T"}
    turned = dict(reversed(schema.items()))
    async with tree() as root:
        await mount(root, one=server(tools=["set_tools", tool("a", schema=schema)]))
        before = await root.system_prompt.assemble()
        entry = root.tools.get("a", None)
        changes = Changes(root)
        await call(root, "set_tools", times=50)
        await call(root, "set_tools", tools=["set_tools", tool("a", schema=turned), "end"])
        await until(lambda: "end" in names(root))
        assert changes.taken() == 1  # of "end"
        assert root.tools.get("a", None) is entry
        assert (await root.system_prompt.assemble()).tools[:1] == before.tools[:1]


async def test_what_cannot_be_registered_is_reported_once_and_not_at_each_listing() -> None:
    """And again when it is wrong in another way."""
    async with tree() as root:
        reports = Reports(root)
        await mount(root, one=server(tools=["set_tools", {"name": "bad"}]))
        for end in ("end1", "end2"):
            await call(root, "set_tools", tools=["set_tools", {"name": "bad"}, end])
            await until(lambda end=end: end in names(root))
        assert len(reports.errors) == 1
        await call(root, "set_tools", tools=["set_tools", tool("bad", schema={"type": "x"}), "e"])
        await until(lambda: "e" in names(root))
        assert len(reports.errors) == 2


async def test_a_tool_that_turns_bad_goes() -> None:
    """And comes back when it is well again."""
    async with tree() as root:
        await mount(root, one=server(tools=["set_tools", "a"]))
        await call(root, "set_tools", tools=["set_tools", {"name": "a"}])
        await until(lambda: "a" not in names(root))
        await call(root, "set_tools", tools=["set_tools", "a"])
        await until(lambda: "a" in names(root))


async def test_a_listener_that_objects_to_a_tool_leaves_it_out() -> None:
    """The change of the prompt can be vetoed."""
    async with tree() as root:
        reports = Reports(root)

        @root.on("system-prompt/change", unfiltered=True)
        def veto() -> None:
            if "b" in names(root):
                raise ValueError("no b")

        await mount(root, one=server(tools=["a", "b", "c"]))
        assert names(root) == ["a", "c"]
        assert ("mcp:one", "no b") in reports.errors


async def test_a_list_that_changes_all_the_time_is_followed() -> None:
    """Tools come and go, and what stays is not touched."""
    async with tree() as root:
        await mount(root, one=server(ticks=0.05))
        seen: set[str] = set()
        stays = root.tools.get("echo", None)

        def has_seen_three() -> bool:
            seen.update(names(root))
            return len(seen) > 3

        await until(has_seen_three)
        assert len(names(root)) == 2
        assert root.tools.get("echo", None) is stays


async def test_a_list_is_read_twenty_times_a_second_at_most(tmp_path: Path) -> None:
    """However often it changes."""
    async with tree() as root:
        await mount(root, one=server(ticks=0.001, directory=str(tmp_path)))
        before, began = asked(tmp_path).count("tools/list"), time.monotonic()
        await until(lambda: asked(tmp_path).count("tools/list") >= before + 6)
        assert time.monotonic() - began >= 5 * 0.05


async def test_a_failed_listing_leaves_what_was_listed() -> None:
    """It is reported, and the next one counts."""
    async with tree() as root:
        reports = Reports(root)
        await mount(root, one=server(tools=["set_tools", "a"]))
        await call(root, "set_tools", tools=None)
        await until(lambda: reports.errors)
        assert reports.errors == [("mcp:one", "no list today")]
        assert names(root) == ["a", "set_tools"]
        await call(root, "set_tools", tools=["set_tools", "b"])
        await until(lambda: names(root) == ["b", "set_tools"])
