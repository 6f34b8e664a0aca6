"""Running code: what it may call, what comes back, and what is told of its faults."""

from __future__ import annotations

import json
from typing import Any

import anyio
import pytest
from harness_plugins.tools.api import (
    PRE_EXECUTE,
    Tool,
    ToolCall,
    ToolDecision,
    ToolError,
    ToolResult,
)

from harness_core import create_scope

from .tree import echo, run, tree

pytestmark = pytest.mark.asyncio


RESULTS: list[tuple[str, str, Any]] = [
    ("1 + 1", "2", 2),
    ("'plain text'", "plain text", "plain text"),
    ("{'a': [1, None, 'é']}", '{"a": [1, null, "é"]}', {"a": [1, None, "é"]}),
    ("print('one'); print('two')\n[3]", "one\ntwo\n=> [3]", [3]),
    ("print('no line end', end='')\n3", "no line end\n=> 3", 3),
    ("import sys; sys.stderr.write('err'); print('out')", "errout\n", None),
    ("x = 1", "(the code printed nothing, and its last line has no value)", None),
    ("", "(the code printed nothing, and its last line has no value)", None),
    ("# only a comment", "(the code printed nothing, and its last line has no value)", None),
    ("object.__name__", "object", "object"),
    ("{1, 2}", "{1, 2}", None),
    ("float('inf')", "inf", None),
    ("'\\ud800'", "\\ud800", "\ud800"),
    ("await asyncio.sleep(0, 'slept')", "slept", "slept"),
    ("async def f(): return 7\nf()", "7", 7),
    ("import os; os.system('echo from a shell')\nNone", "from a shell\n", None),
    ("raise SystemExit", "(the code printed nothing, and its last line has no value)", None),
    ("__name__", "__main__", "__main__"),
]


async def test_what_is_printed_and_the_value_of_the_last_line_come_back() -> None:
    """Data as data; anything else as its text."""
    async with tree() as (root, _):
        for code, text, value in RESULTS:
            result = await run(root, code)
            assert (result.text, result.value, result.status) == (text, value, "ok"), code


BY_ZERO = "ZeroDivisionError: division by zero"
ERRORS: list[tuple[str, str]] = [
    ("1 +", "SyntaxError: invalid syntax (line 1)"),
    ("return 1", "SyntaxError: 'return' outside function (line 1)"),
    (
        "def f():\n    return 1 / 0\nprint('so far')\nf()",
        "so far\nline 4, in <module>: f()\nline 2, in f: return 1 / 0\n" + BY_ZERO,
    ),
    ("exit(3)", "line 1, in <module>: exit(3)\nSystemExit: 3"),
    ("input()", "line 1, in <module>: input()\nEOFError: EOF when reading a line"),
    ("class E(Exception):\n  def __str__(s): 1/0\nraise E", "line 3, in <module>: raise E\nE"),
    (
        "asyncio.current_task().cancel()\nawait asyncio.sleep(9)",
        "line 2, in <module>: await asyncio.sleep(9)\nCancelledError",
    ),
]


async def test_an_error_is_told_with_its_lines_and_what_was_printed_before() -> None:
    """Never as a traceback with places of ours."""
    async with tree() as (root, _):
        for code, text in ERRORS:
            result = await run(root, code)
            assert (result.text, result.status) == (text, "failed"), code


async def test_usual_mistakes_are_told_what_to_write() -> None:
    """A loop in the loop, and a call that nobody awaits."""
    async with tree() as (root, _):
        root.tools.register(echo())
        result = await run(root, "async def main(): pass\nasyncio.run(main())")
        assert "`await` works at the top level: write `await main()`" in result.text
        assert "runner.py" not in result.text
        assert "coroutine 'main' was never awaited" in result.text
        result = await run(root, "echo(1)\n2")
        assert result.text.startswith("RuntimeWarning: coroutine 'echo' was never awaited\n")
        assert "=> 2" in result.text
        deep = "def f(n):\n    return f(n - 1) if n else 1 / 0\nf(100)"
        assert "(90 more)" in (await run(root, deep)).text
        group = "async with asyncio.TaskGroup() as g:\n    g.create_task(echo())"
        assert "- line 2" not in (told := (await run(root, group)).text)
        assert "'value' is a required property" in told


async def test_tools_are_functions_by_position_and_by_name() -> None:
    """In the order of the signature; what is left out, and `...`, is not sent."""
    seen: list[Any] = []
    schema = {
        "type": "object",
        "properties": {
            "late": {"type": "integer", "default": 3},
            "first": {"type": "string"},
            "from": {"type": "string"},
            "max-count": {"type": "integer"},
        },
        "required": ["first"],
        "additionalProperties": False,
    }
    async with tree() as (root, _):
        root.tools.register(Tool("git-log", "", schema, run=lambda given: seen.append(given)))
        for code in (
            "git_log('a')",
            "git_log('a', 2, from_='b')",
            "git_log(first='a', max_count=1)",
            "git_log('a', ..., 'b')",
            "git_log('a', **{'max-count': 1})",
        ):
            result = await run(root, f"await {code}")
            assert result.status == "ok", result.text
        assert seen == [
            {"first": "a"},
            {"first": "a", "late": 2, "from": "b"},
            {"first": "a", "max-count": 1},
            {"first": "a", "from": "b"},
            {"first": "a", "max-count": 1},
        ]
        for code, error in {
            "git_log('a', 1, 'b', 2, 3)": "TypeError: git_log() takes 4 arguments, got 5",
            "git_log('a', first='b')": "TypeError: git_log() got 'first' twice",
            "git_log({1, 2})": "TypeError: arguments of a tool must be JSON data: Object",
            "git_log('a', float('nan'))": "TypeError: arguments of a tool must be JSON data: Out",
        }.items():
            assert error in (await run(root, f"await {code}")).text
        result = await run(root, "await git_log(late='x', nope=1)")
        assert all(part in result.text for part in (
            'ToolError: invalid arguments for tool "git-log":', "'first' is a required property",
            "'x' is not of type 'integer'", "'nope' was unexpected",
        ))  # fmt: skip


VALUES: list[Any] = [
    *(None, True, 0, -1.5, "", "日本 \U0001f642 \ud800", [1, [2, {}]], {"a": {"b": []}}),
    "x" * 300_000,
]


async def test_data_goes_there_and_back_unchanged() -> None:
    """Also what is much larger than what the model is shown."""
    async with tree() as (root, _):
        root.tools.register(echo(max_output=200))
        for value in VALUES:
            code = f"import json\ngiven = json.loads({json.dumps(value)!r})\n"
            result = await run(root, code + "(await echo(given)) == given")
            assert result.value is True, result.text


async def test_a_tool_that_fails_raises_in_the_code() -> None:
    """With the words that a model reads, and the code goes on if it likes."""

    async def no(_: Any) -> None:
        raise ToolError("no such file: x")

    def bad(_: Any) -> None:
        raise ValueError("inside")

    async with tree() as (root, _):
        root.tools.register(Tool("no", "", run=no))
        root.tools.register(Tool("bad", "", run=bad))
        code = """
told = []
for one in (no, bad):
    try:
        await one()
    except ToolError as error:
        told.append(str(error))
told
"""
        result = await run(root, code)
        assert result.value == ["no such file: x", 'tool "bad" failed: ValueError: inside']
        assert "ToolError: no such file: x" in (await run(root, "await no()")).text


async def test_calls_are_restricted_and_decided_about_as_the_models_are() -> None:
    """Also when that changes while the code runs; only this scope's tools are functions."""
    async with tree() as (root, _):
        root.tools.register(echo())
        root.tools.register(echo("other"))
        scope = create_scope(root, "agent")
        limit = scope.ctx.tools.restrict(deny=["other"])
        result = await run(root, "(await echo(1), 'other' in globals())", "agent")
        assert result.value == [1, False]
        assert "NameError: name 'run_code' is not defined" in (await run(root, "run_code")).text

        @root.on(PRE_EXECUTE)
        def guard(call: ToolCall) -> ToolDecision | None:
            if call.name != "echo":
                return None
            assert call.via is not None
            assert (call.via.call_id, call.scope) == ("c1", "agent")
            return ToolDecision.deny("not today")

        result = await run(root, "await echo(1)", "agent", call_id="c1")
        assert 'ToolError: the call of tool "echo" was denied: not today' in result.text
        await limit()

        def hide(_: Any) -> str:
            scope.ctx.tools.restrict(deny=["other"])
            return "hidden"

        root.tools.register(Tool("hide", "", run=hide))
        result = await run(root, "await hide()\nawait other(1)", "agent")
        assert 'ToolError: unknown tool "other"; available tools: echo, hide' in result.text


async def test_calls_at_once_run_at_once() -> None:
    """With asyncio.gather, for tools that say that they are safe beside others."""
    async with tree() as (root, _):
        arrived: list[Any] = []
        all_here = anyio.Event()

        async def meet(given: dict[str, Any]) -> Any:
            arrived.append(given["value"])
            if len(arrived) == 10:
                all_here.set()
            await all_here.wait()
            return given["value"]

        schema = {"type": "object", "properties": {"value": {}}}
        root.tools.register(Tool("meet", "", schema, run=meet, parallel=True))
        with anyio.fail_after(10):
            result = await run(root, "await asyncio.gather(*[meet(n) for n in range(10)])")
        assert result.value == list(range(10))


async def test_a_call_that_the_code_gives_up_is_cancelled_and_the_code_goes_on() -> None:
    """With a deadline of its own."""
    async with tree() as (root, _):
        journal: list[str] = []

        async def slow(_: Any) -> None:
            try:
                await anyio.sleep_forever()
            finally:
                journal.append("cancelled")

        root.tools.register(Tool("slow", "", run=slow))
        root.tools.register(Tool("ended", "", run=lambda _: list(journal)))
        code = """
try:
    await asyncio.wait_for(slow(), 0.05)
except TimeoutError:
    print("gave up")
await ended()
"""
        with anyio.fail_after(10):  # "ended" has its turn when "slow" has ended
            assert (await run(root, code)).text == 'gave up\n=> ["cancelled"]'
        # What nobody waits for any more is cancelled with the end of the code, too.
        assert (await run(root, "t = asyncio.create_task(slow())\nawait asyncio.sleep(0)")).text
        assert journal == ["cancelled", "cancelled"]


async def test_each_run_starts_anew_in_the_same_process() -> None:
    """Names, the directory, what was done to stdout: nothing is kept."""
    async with tree() as (root, _):
        first = await run(root, "import os, sys\nx = 1\nos.mkdir('d')\nos.chdir('d')\nos.getpid()")
        await run(root, "import os, sys\nsys.stdout.close()\nsys.stderr = None")
        await run(
            root, "import os\nos.dup2(os.open('file', os.O_CREAT | os.O_WRONLY), 1)\nprint(1)"
        )
        result = await run(root, "import os\nprint('heard')\n(os.getpid(), os.getcwd())")
        assert result.value[0] == first.value
        assert "harness-code-" in result.value[1].rsplit("/", 1)[1]
        assert result.text.startswith("heard\n")
        assert "name 'x' is not defined" in (await run(root, "x")).text


async def test_the_environment_holds_no_keys_and_the_directory_is_its_own(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    """Unless the settings say so."""
    monkeypatch.setenv("SOME_API_KEY", "secret")
    ask = "import os\n(os.environ.get('SOME_API_KEY'), os.environ.get('MINE'), os.getcwd())"
    async with tree() as (root, _):
        key, mine, where = (await run(root, ask)).value
        assert (key, mine) == (None, None)
        assert where != str(tmp_path)
    settings: dict[str, Any] = {"directory": str(tmp_path), "environment": {"MINE": "yes"}}
    async with tree(**settings) as (root, _):
        assert (await run(root, ask)).value == [None, "yes", str(tmp_path)]
        assert tmp_path.exists()
    assert tmp_path.exists()


async def test_a_value_that_is_no_data_comes_as_its_text() -> None:
    """Data that contains itself has no end."""
    endless: list[Any] = []
    endless.append(endless)
    async with tree() as (root, _):
        root.tools.register(Tool("endless", "", run=lambda _: ToolResult("text", value=endless)))
        assert (await run(root, "await endless()")).value == "text"


async def test_an_argument_is_found_by_the_name_that_python_reads() -> None:
    schema = {"type": "object", "properties": {"ﬁle": {"type": "string"}}, "required": ["ﬁle"]}
    async with tree() as (root, _):
        root.tools.register(Tool("read", "", schema, run=lambda arguments: arguments["ﬁle"]))
        for code in ("await read(ﬁle='x')", "await read(file='x')", "await read('x')"):
            assert (await run(root, code)).value == "x"
