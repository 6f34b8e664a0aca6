"""The events of a call: decide, around, after, result; each heard along the chain of the scope."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import attrs
import pytest
from anyio.lowlevel import checkpoint
from harness_plugins.tools.api import (
    ASK,
    EXECUTE,
    POST_EXECUTE,
    PRE_EXECUTE,
    RESULT,
    Tool,
    ToolCall,
    ToolDecision,
    ToolResult,
)

from harness_core import create_scope

from .tree import tool, tree

pytestmark = pytest.mark.asyncio

Next = Callable[[], Awaitable[ToolResult]]


async def test_the_order_of_a_call() -> None:
    """Pre-execute, execute around the tool, post-execute, result."""
    async with tree() as root:
        journal: list[str] = []
        root.tools.register(tool("one", lambda: journal.append("tool") or "done"))

        async def around(call: ToolCall, next: Next) -> ToolResult:
            journal.append("before")
            result = await next()
            journal.append("after")
            return result

        root.on(PRE_EXECUTE, lambda call: journal.append("pre"))
        root.on(EXECUTE, around)
        root.on(POST_EXECUTE, lambda call, result: journal.append(f"post {result.text}"))
        root.on(RESULT, lambda call, result: journal.append(f"result {result.text}"))
        await root.tools.execute("one", {}, scope=None)
        assert journal == ["pre", "before", "tool", "after", "post done", "result done"]


async def test_events_are_heard_along_the_chain_of_the_scope() -> None:
    """Untagged listeners, the scope's and its ancestors'; not siblings, not descendants."""
    async with tree() as root:
        root.tools.register(tool("one"))
        journal: list[tuple[str, str]] = []
        contexts = {"root": root}
        for key, parent in (("outer", None), ("mine", "outer"), ("sibling", "outer")):
            contexts[key] = create_scope(root, key, parent=parent).ctx
        contexts["below"] = create_scope(root, "below", parent="mine").ctx

        for key, ctx in contexts.items():

            async def around(call: ToolCall, next: Next, *, key: str = key) -> ToolResult:
                journal.append((key, "execute"))
                return await next()

            def note(event: str, key: str = key) -> Callable[..., None]:
                return lambda *_: journal.append((key, event))

            ctx.on(PRE_EXECUTE, note("pre"))
            ctx.on(EXECUTE, around)
            ctx.on(POST_EXECUTE, note("post"))
            ctx.on(RESULT, note("result"))
        await root.tools.execute("one", {}, scope="mine")
        heard = {key for key, _ in journal}
        assert heard == {"root", "outer", "mine"}
        assert len(journal) == 12
        journal.clear()
        await root.tools.execute("one", {}, scope=None)
        assert {key for key, _ in journal} == {"root"}


async def test_a_denial_has_a_reason_and_the_tool_does_not_run() -> None:
    """The model reads the reason; only `tools/result` follows."""
    async with tree() as root:
        journal: list[str] = []
        root.tools.register(tool("one", lambda: journal.append("tool")))
        root.on(PRE_EXECUTE, lambda call: ToolDecision.deny("outside of the workspace"))
        root.on(PRE_EXECUTE, lambda call: journal.append("second"))
        root.on(POST_EXECUTE, lambda *_: journal.append("post"))
        root.on(RESULT, lambda _, result: journal.append(result.status))
        result = await root.tools.execute("one", {}, scope=None)
        assert result.text == 'the call of tool "one" was denied: outside of the workspace'
        assert journal == ["denied"]


async def test_the_first_decision_counts() -> None:
    """A listener that has no say returns nothing; `prepend` makes one the first."""
    async with tree() as root:
        root.tools.register(tool("one"))
        root.on(PRE_EXECUTE, lambda call: None)
        root.on(PRE_EXECUTE, lambda call: ToolDecision.allow())
        root.on(PRE_EXECUTE, lambda call: ToolDecision.deny("too late"))
        assert (await root.tools.execute("one", {}, scope=None)).status == "ok"
        root.on(PRE_EXECUTE, lambda call: ToolDecision.deny("first"), prepend=True)
        assert (await root.tools.execute("one", {}, scope=None)).status == "denied"


async def test_ask_goes_to_whoever_can_ask_a_person() -> None:
    """Without an answer it is a denial."""
    async with tree() as root:
        root.tools.register(tool("one"))

        async def ask(call: ToolCall) -> ToolDecision:
            return ToolDecision.ask(f"run {call.name}?")

        root.on(PRE_EXECUTE, ask)
        result = await root.tools.execute("one", {}, scope=None)
        assert result.text == 'the call of tool "one" was denied: nobody answered: run one?'
        questions: list[str] = []

        async def answer(call: ToolCall, question: str) -> ToolDecision:
            questions.append(question)
            return ToolDecision.allow()

        effect = root.on(ASK, answer)
        assert (await root.tools.execute("one", {}, scope=None)).status == "ok"
        assert questions == ["run one?"]
        effect()
        root.on(ASK, lambda call, question: ToolDecision.deny("the user said no"))
        result = await root.tools.execute("one", {}, scope=None)
        assert result.text.endswith("denied: the user said no")


@pytest.mark.parametrize("answer", [True, "no", RuntimeError("secret detail")])
async def test_a_check_that_fails_lets_nothing_pass(
    answer: object, caplog: pytest.LogCaptureFixture
) -> None:
    """Whoever cannot decide does not allow; the log says who it was."""
    async with tree() as root:
        root.tools.register(tool("one"))

        def guard(ctx: Any) -> None:
            def check(call: ToolCall) -> object:
                if isinstance(answer, Exception):
                    raise answer
                return answer

            ctx.on(PRE_EXECUTE, check)

        await root.plugin(guard)
        result = await root.tools.execute("one", {}, scope=None)
        assert result.status == "denied"
        assert "secret" not in result.text
        assert "one" in caplog.text


async def test_around_may_change_replace_and_short_circuit() -> None:
    """Its result is authoritative, and is limited like any other."""
    async with tree(max_output=200) as root:
        root.tools.register(tool("one", "text"))

        async def upper(call: ToolCall, next: Next) -> ToolResult:
            result = await next()
            return attrs.evolve(result, text=result.text.upper())

        effect = root.on(EXECUTE, upper)
        assert (await root.tools.execute("one", {}, scope=None)).text == "TEXT"
        effect()
        root.on(EXECUTE, lambda *_: ToolResult("y" * 999))
        assert len((await root.tools.execute("one", {}, scope=None)).text) <= 200


@pytest.mark.parametrize("answer", [None, "text", RuntimeError("secret detail")])
async def test_a_broken_listener_around_is_an_answer(
    answer: object, caplog: pytest.LogCaptureFixture
) -> None:
    """The model does not read of it more than that; the log names the listener."""
    async with tree() as root:
        root.tools.register(tool("one"))

        def around(call: ToolCall, next: Next) -> object:
            if isinstance(answer, Exception):
                raise answer
            return answer

        root.on(EXECUTE, around)
        result = await root.tools.execute("one", {}, scope=None)
        assert result.status == "failed"
        assert result.text == 'tool "one" failed: a plugin around it raised an error'
        assert "tools/execute" in caplog.text


async def test_post_execute_is_awaited_and_cannot_spoil_the_result(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It is told of what has happened already."""
    async with tree() as root:
        root.tools.register(tool("one"))
        journal: list[str] = []

        async def slow(call: ToolCall, result: ToolResult) -> None:
            await checkpoint()
            journal.append("post")

        def broken(call: ToolCall, result: ToolResult) -> None:
            raise RuntimeError("broken")

        root.on(POST_EXECUTE, slow)
        root.on(POST_EXECUTE, broken)
        assert (await root.tools.execute("one", {}, scope=None)).status == "ok"
        assert journal == ["post"]
        assert "broken" in caplog.text


async def test_listeners_cannot_change_what_the_tool_gets() -> None:
    """What was validated is what runs."""
    got: list[Any] = []
    async with tree() as root:
        schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
        root.tools.register(Tool("one", "", schema, run=got.append))

        def change(call: ToolCall) -> None:
            call.arguments["n"] = "not a number"

        root.on(PRE_EXECUTE, change)
        await root.tools.execute("one", {"n": 1}, scope=None)
        assert got == [{"n": 1}]


async def test_a_tool_that_goes_or_is_hidden_while_a_decision_waits_does_not_run() -> None:
    """What counts is what is visible when it runs."""
    async with tree() as root:
        journal: list[str] = []
        scope = create_scope(root, "agent")
        effects = [root.tools.register(tool("one", lambda: journal.append("old")))]

        def hide(call: ToolCall) -> None:
            effects.append(scope.ctx.tools.restrict(deny=["one"]))

        listener = root.on(PRE_EXECUTE, hide)
        result = await root.tools.execute("one", {}, scope="agent")
        assert result.text == 'unknown tool "one"; available tools: (none)'
        listener()
        effects.pop()()

        def replace(call: ToolCall) -> None:
            effects.pop()()
            effects.append(root.tools.register(tool("one", lambda: journal.append("new"))))

        listener = root.on(PRE_EXECUTE, replace)
        result = await root.tools.execute("one", {}, scope="agent")
        assert (result.status, journal) == ("gone", [])
        assert "was replaced before the call could run" in result.text
