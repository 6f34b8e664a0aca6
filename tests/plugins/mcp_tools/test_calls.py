"""What becomes of a call: every answer of a server, every way to fail, and every interruption."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import anyio
import pytest
from harness_plugins.tools.api import ToolResult

from harness_core import Context

from .living import asked, call, mount, names, server, tree, until

pytestmark = pytest.mark.asyncio

BLOB = base64.b64encode(b"12345").decode()
TEXT = {"type": "text", "text": "Hello."}
LINK = {"type": "resource_link", "uri": "file:///a.txt", "name": "a", "description": "A file."}
ANSWERS: dict[str, tuple[dict[str, Any], str, Any]] = {
    "text": ({"content": [TEXT]}, "Hello.", "Hello."),
    "texts": ({"content": [TEXT, TEXT]}, "Hello.\nHello.", "Hello.\nHello."),
    "nothing": ({"content": []}, "", ""),
    "structured": (
        {"content": [], "structuredContent": {"a": ["ü"]}},
        '{"a": ["ü"]}',
        {"a": ["ü"]},
    ),
    "both": ({"content": [TEXT], "structuredContent": {"a": 1}}, "Hello.", {"a": 1}),
    "image": (
        {"content": [TEXT, {"type": "image", "data": BLOB, "mimeType": "image/png"}]},
        "Hello.\n[image: image/png, 5 bytes]",
        [TEXT, {"type": "image", "data": BLOB, "mimeType": "image/png"}],
    ),
    "audio": (
        {"content": [{"type": "audio", "data": BLOB, "mimeType": "audio/wav"}]},
        "[audio: audio/wav, 5 bytes]",
        [{"type": "audio", "data": BLOB, "mimeType": "audio/wav"}],
    ),
    "link": ({"content": [LINK]}, "[resource file:///a.txt (a): A file.]", [LINK]),
    "resource": (
        {"content": [{"type": "resource", "resource": {"uri": "file:///a.txt", "text": "ABC"}}]},
        "[resource file:///a.txt]\nABC",
        [{"type": "resource", "resource": {"uri": "file:///a.txt", "text": "ABC"}}],
    ),
    "bytes": (
        {"content": [{"type": "resource", "resource": {"uri": "file:///a", "blob": BLOB}}]},
        "[resource file:///a]\n[binary data, 5 bytes]",
        [{"type": "resource", "resource": {"uri": "file:///a", "blob": BLOB}}],
    ),
}


@pytest.mark.parametrize(("answer", "text", "value"), ANSWERS.values(), ids=ANSWERS)
async def test_every_kind_of_content_becomes_text_and_a_value(
    answer: dict[str, Any], text: str, value: Any
) -> None:
    """The text is for the model, the value for code."""
    async with tree() as root:
        await mount(root, one=server(tools=["answer"]))
        result = await call(root, "answer", result=answer)
        assert (result.status, result.text, result.value) == ("ok", text, value)


async def test_an_error_result_is_a_failed_call_in_the_words_of_the_server() -> None:
    """Of whatever kind the words are."""
    async with tree() as root:
        await mount(root, one=server(tools=["fail", "answer"]))
        result = await call(root, "fail")
        assert (result.status, result.text) == ("failed", "it is broken")
        result = await call(root, "answer", result={"content": [], "isError": True})
        assert (result.status, result.text) == ("failed", "the tool failed and did not say why")
        structured = {"content": [], "structuredContent": {"code": 5}, "isError": True}
        result = await call(root, "answer", result=structured)
        assert (result.status, result.text) == ("failed", '{"code": 5}')


async def test_a_refusal_of_the_protocol_is_a_failed_call() -> None:
    """Unknown tools and arguments that the server does not take."""
    async with tree() as root:
        await mount(root, one=server(tools=["refuse"]))
        result = await call(root, "refuse")
        assert (result.status, result.text) == (
            "failed",
            'server "one" refused the call: no such thing',
        )


async def test_arguments_are_checked_before_the_server_is_asked(tmp_path: Path) -> None:
    """By the server's own schema."""
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    strict = {"name": "strict", "inputSchema": schema}
    async with tree() as root:
        await mount(root, one=server(tools=[strict], directory=str(tmp_path)))
        assert (await call(root, "strict", n="5")).status == "invalid"
        assert "tools/call" not in asked(tmp_path)
        assert (await call(root, "strict", n=5)).text == '{"n": 5}'


async def test_text_that_is_no_text_is_refused_and_harms_nobody() -> None:
    """Half a surrogate pair, as models write them."""
    async with tree() as root:
        await mount(root, one=server())
        result = await call(root, "echo", word="\ud83d")
        assert result.status == "failed"
        assert "what is no text" in result.text
        assert (await call(root, "echo", word="fine 🎉")).status == "ok"


async def test_a_result_that_breaks_the_protocol_is_a_failed_call() -> None:
    """The connection stands."""
    async with tree() as root:
        await mount(root, one=server(tools=["answer"]))
        assert (await call(root, "answer", result={"content": "none"})).status == "failed"
        assert (await call(root, "answer", result={"content": [TEXT]})).text == "Hello."


async def test_structured_content_is_checked_against_the_output_schema() -> None:
    """Of the server that promised it."""
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    listed = {"name": "answer", "inputSchema": {"type": "object"}, "outputSchema": schema}
    async with tree() as root:
        await mount(root, one=server(tools=[listed]))
        for value, status in ((5, "ok"), ("five", "failed")):
            result = {"content": [], "structuredContent": {"n": value}}
            assert (await call(root, "answer", result=result)).status == status


async def test_a_huge_answer_is_cut() -> None:
    """To the limit of the server, or else of all tools; ten megabytes harm nobody."""
    async with tree(max_output=1000) as root:
        await mount(root, one=server(tools=["huge"]))
        result = await call(root, "huge", size=10_000_000)
        assert result.status == "ok"
        assert 900 < len(result.text) <= 1000
        assert result.dropped > 9_990_000
    async with tree() as root:
        await mount(root, one=server({"max_output": 300}, tools=["huge"]))
        assert 200 < len((await call(root, "huge", size=5000)).text) <= 300


async def test_a_call_that_takes_too_long_is_cancelled_on_the_server(tmp_path: Path) -> None:
    """The server is told, and the next call is answered."""
    async with tree() as root:
        settings = server({"call_timeout": 0.05}, tools=["slow", "echo"], directory=str(tmp_path))
        await mount(root, one=settings)
        result = await call(root, "slow")
        assert (result.status, result.text) == (
            "timed-out",
            'tool "slow" took longer than 0.05 s and was cancelled',
        )
        await until(lambda: "notifications/cancelled" in asked(tmp_path))
        assert (await call(root, "echo", a=1)).text == '{"a": 1}'


async def test_a_caller_who_is_cancelled_cancels_the_call_on_the_server(tmp_path: Path) -> None:
    """And the connection stands."""
    async with tree() as root:
        await mount(root, one=server(tools=["slow", "echo"], directory=str(tmp_path)))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call, root, "slow")
            await until(lambda: "tools/call" in asked(tmp_path))
            tasks.cancel_scope.cancel()
        await until(lambda: "notifications/cancelled" in asked(tmp_path))
        assert (await call(root, "echo")).status == "ok"


async def during_slow_call(root: Context, directory: Path, act: Any) -> ToolResult:
    """Call a tool that never answers, do something meanwhile, and return the result."""
    results: list[ToolResult] = []

    async def run() -> None:
        results.append(await call(root, "slow"))

    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run)
            await until(lambda: "tools/call" in asked(directory))
            await act()
    return results[0]


async def test_a_call_ends_when_its_plugin_is_disposed(tmp_path: Path) -> None:
    """The caller is told so."""
    async with tree() as root:
        fiber = await mount(root, one=server(tools=["slow"], directory=str(tmp_path)))
        result = await during_slow_call(root, tmp_path, fiber.dispose)
        assert result.status == "gone"


async def test_a_server_that_dies_during_a_call_fails_it_at_once(tmp_path: Path) -> None:
    """The call that killed it, and those that wait beside."""
    async with tree() as root:
        settings = server({"parallel": True}, tools=["slow", "crash"], directory=str(tmp_path))
        await mount(root, one=settings)
        killers: list[ToolResult] = []

        async def crash() -> None:
            killers.append(await call(root, "crash"))

        for result in (await during_slow_call(root, tmp_path, crash), killers[0]):
            assert result.status == "failed"
            assert 'server "one" went away during the call' in result.text
        await until(lambda: names(root) == ["crash", "slow"])


@pytest.mark.parametrize(
    ("setting", "hint", "is_parallel"),
    [
        (None, None, False),
        (None, {"readOnlyHint": True}, True),
        (None, {"readOnlyHint": False}, False),
        (False, {"readOnlyHint": True}, False),
        (True, None, True),
    ],
)
async def test_calls_run_beside_others_where_that_is_safe(
    setting: bool | None, hint: dict[str, bool] | None, is_parallel: bool
) -> None:
    """The settings say so, or else the tool, by saying that it only reads."""
    listed = {"name": "echo", "inputSchema": {"type": "object"}}
    if hint is not None:
        listed["annotations"] = hint
    async with tree() as root:
        await mount(root, one=server({"parallel": setting}, tools=[listed]))
        assert root.tools.get("echo", None).parallel is is_parallel
