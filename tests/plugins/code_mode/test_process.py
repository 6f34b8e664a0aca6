"""The processes: limits, cancellation, reuse, and that none is left."""

from __future__ import annotations

import gc
import json
import os
import signal
import subprocess
import sys
import textwrap
import weakref
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import pytest
from harness_plugins import code_mode
from harness_plugins.code_mode.worker import Limits, Worker
from harness_plugins.tools.api import RESULT, Tool, ToolResult, Tools

from harness_core import Context, create_scope
from harness_core.errors import ConfigError
from harness_core.testing import assert_no_residue, check_plugin

from .tree import echo, exists, is_gone, run, runners, tree, until

pytestmark = pytest.mark.asyncio

PID = "import os\nos.getpid()"


async def pid(root: Context, scope: object | None = None) -> int:
    """Return the process that runs the code of a scope."""
    found: int = (await run(root, PID, scope)).value
    return found


# Limits


@pytest.mark.parametrize("code", ["while True: pass", "import time\ntime.sleep(99)",
                                  "await asyncio.sleep(99)", "await slow()"])  # fmt: skip
async def test_a_run_that_takes_too_long_is_ended_with_its_process(code: str) -> None:
    """What it had printed is told; the next run has another process."""
    async with tree(timeout=0.5) as (root, _):

        async def slow(_: Any) -> None:
            await anyio.sleep_forever()

        root.tools.register(Tool("slow", "", run=slow))
        before = await pid(root)
        result = await run(root, f"print('so far')\n{code}")
        assert result.status == "timed-out"
        assert result.text == ("so far\nthe code took longer than 0.5 s, and its process was ended")
        assert is_gone(before)
        assert await pid(root) != before


async def test_a_run_that_wants_too_much_memory_fails_and_its_process_is_replaced() -> None:
    """Not the harness, and not the next run."""
    async with tree(memory=256) as (root, _):
        before = await pid(root)
        result = await run(root, "print('so far')\nx = bytearray(300_000_000)")
        assert result.text == (
            "so far\nline 2, in <module>: x = bytearray(300_000_000)\nMemoryError"
        )
        assert is_gone(before)
        after = await pid(root)
        result = await run(root, "x = []\nwhile True: x.append(bytearray(1_000_000))")
        assert "MemoryError" in result.text
        assert is_gone(after)
        assert (await run(root, "len(bytearray(10_000_000))")).value == 10_000_000


async def test_a_process_that_cannot_be_started_is_told() -> None:
    """With how it ended; the next call tries again."""
    async with tree(directory="/nowhere/at/all") as (root, _):
        for _ in range(2):
            result = await run(root, "1")
            assert result.text == (
                "no process could be started to run the code: [Errno 2] No such file or "
                "directory: '/nowhere/at/all'"
            )


async def test_output_is_cut_with_a_notice_and_the_value_is_still_there() -> None:
    """A little too much is cut; without an end, it is ended."""
    async with tree(max_output=1000) as (root, _):
        before = await pid(root)
        result = await run(root, "print('a' * 5000)\n'b' * 100")
        lines = result.text.split("\n")
        assert lines[1] == "[the output was truncated: the first 897 of 5001 characters are shown]"
        assert lines[2] == "=> " + "b" * 100
        result = await run(root, "'c' * 5000")
        assert result.text == "c" * 1000 + (
            "\n[the value was truncated: the first 1000 of 5000 characters are shown]"
        )
        assert result.value == "c" * 5000
        result = await run(root, "['c' * 20_000]")
        assert result.value is None  # far too large to be passed on
        assert await pid(root) == before
        result = await run(root, "while True: print('d' * 999)")
        assert result.status == "failed"
        assert result.text.endswith(
            "the process was lost: it printed without an end, and was ended"
        )
        assert len(result.text) < 1300
        assert is_gone(before)


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("import os\nos._exit(3)", "it ended with exit code 3"),
        (
            "import os\nasyncio.create_task(slow())\nawait asyncio.sleep(0.05)\nos._exit(3)",
            "it ended with exit code 3",
        ),
        ("import os, signal\nos.kill(os.getpid(), 9)", "it ended by signal 9"),
        ("import os\nos.closerange(3, 99)", "the process was lost"),
        ("asyncio.get_running_loop().stop()", "CancelledError"),
    ],
)
async def test_a_process_that_is_lost_is_told_and_replaced(code: str, told: str) -> None:
    """With what was printed before."""
    async with tree(timeout=20) as (root, _):

        async def slow(_: Any) -> None:
            await anyio.sleep_forever()

        root.tools.register(Tool("slow", "", run=slow))
        before = await pid(root)
        with anyio.fail_after(15):
            result = await run(root, f"print('so far')\n{code}\nawait asyncio.sleep(9)")
        assert result.status == "failed"
        assert result.text.startswith("so far\n")
        assert told in result.text
        await until(lambda: is_gone(before))
        assert (await run(root, "1")).value == 1


async def test_what_the_code_has_left_running_ends_with_its_process() -> None:
    """Children, threads, tasks that do not end: the process is not used again."""
    leaves = [
        "import subprocess\nsubprocess.Popen(['sleep', '99']).pid",
        "import subprocess\nsubprocess.Popen(['sleep', '99'], start_new_session=True).pid",
        "import threading, time\nthreading.Thread(target=time.sleep, args=(99,)).start()",
        """
async def stubborn():
    while True:
        try:
            await asyncio.sleep(99)
        except asyncio.CancelledError:
            pass
task = asyncio.create_task(stubborn())
await asyncio.sleep(0)
""",
    ]
    async with tree() as (root, _):
        for code in leaves:
            before = await pid(root)
            result = await run(root, code)
            assert result.status == "ok", result.text
            assert is_gone(before)
            if result.value:
                await until(lambda child=result.value: is_gone(child))  # type: ignore[misc]


async def test_a_copy_of_the_process_says_nothing() -> None:
    """Who forks does not answer twice."""
    async with tree() as (root, _):
        before = await pid(root)
        calls: list[Any] = []
        root.tools.register(Tool("tell", "", run=lambda _: calls.append(1)))
        code = """
import os
child = os.fork()
if child:
    os.waitpid(child, 0)
    print('parent')
else:
    await tell()
"""
        assert (await run(root, code)).text == "parent\n"
        assert calls == []
        assert (await run(root, "print('clean')")).text == "clean\n"
        assert await pid(root) == before


# Cancellation


@pytest.mark.parametrize("place", ["code", "tool", "child"])
async def test_cancelling_a_call_ends_the_process_and_all_it_started(place: str) -> None:
    """By a signal or by the caller's own cancellation."""
    async with tree() as (root, _):
        seen: list[Any] = []
        arrived = anyio.Event()

        async def tell(given: dict[str, Any]) -> None:
            seen.append(given["value"])
            arrived.set()
            if place == "tool":
                await anyio.sleep_forever()

        schema = {"type": "object", "properties": {"value": {}}}
        root.tools.register(Tool("tell", "", schema, run=tell))
        statuses: list[str] = []
        root.on(RESULT, lambda call, result: statuses.append(f"{call.name} {result.status}"))
        code = "import os, subprocess\nmine = [os.getpid()]\n"
        if place == "child":
            code += "mine.append(subprocess.Popen(['sleep', '99'], start_new_session=True).pid)\n"
        code += "await tell(mine)\nwhile True: pass"
        event = anyio.Event()
        results: list[ToolResult] = []

        async def call(signal: Any) -> None:
            results.append(await run(root, code, signal=signal))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call, event)
            await arrived.wait()
            event.set()
        assert results[0].status == "cancelled"
        arrived = anyio.Event()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call, None)
            await arrived.wait()
            tasks.cancel_scope.cancel()
        assert statuses.count("run_code cancelled") == 2
        for processes in seen:
            assert is_gone(processes[0])
            for child in processes[1:]:
                await until(lambda child=child: is_gone(child))  # type: ignore[misc]
        assert runners() == []


async def test_a_call_may_be_cancelled_at_any_time() -> None:
    """While the process starts, runs, calls, prints or has ended: none is left, the next works."""
    code = "print('a' * 1000)\nfor n in range(20): await echo(n)\n'over'"
    async with tree(keep=1) as (root, _):
        root.tools.register(echo())
        began = anyio.current_time()
        await run(root, code)
        whole = anyio.current_time() - began
        for step in range(24):
            before = runners()
            with anyio.move_on_after(whole * step / 20):
                await run(root, code)
            assert len(runners()) <= 1
            if step % 3 == 0:
                assert (await run(root, "1")).value == 1
            elif before and step % 3 == 1:
                with suppress(ProcessLookupError):  # the cancelled run may have ended it
                    os.kill(before[0], signal.SIGKILL)


# Reuse and residue


async def test_a_scope_keeps_its_process_and_scopes_do_not_share_one() -> None:
    """Whatever the code raised; as many wait as the settings say."""
    async with tree(keep=2) as (root, _):
        keys = ["a", "b", "c"]
        for key in keys:
            create_scope(root, key)
        first = {key: await pid(root, key) for key in keys[:2]}
        await run(root, "1 / 0", "a")
        await run(root, "def", "a")
        assert {key: await pid(root, key) for key in keys[:2]} == first
        assert first["a"] != first["b"]
        await pid(root, "c")
        assert is_gone(first["a"])  # it had waited longest
        assert not is_gone(first["b"])
        assert len(runners()) == 2
    async with tree(keep=0) as (root, _):
        assert is_gone(await pid(root))


async def test_a_process_that_died_while_it_waited_is_replaced() -> None:
    """Nobody is told; the code runs."""
    async with tree() as (root, _):
        for _ in range(5):
            before = await pid(root)
            os.kill(before, signal.SIGKILL)
            result = await run(root, PID)
            assert result.status == "ok", result.text
            assert result.value != before


async def test_processes_that_nobody_uses_are_ended() -> None:
    """After the seconds of the settings; one that is used meanwhile is not."""
    async with tree(idle=0.05) as (root, _):
        create_scope(root, "a")
        one, other = await pid(root), await pid(root, "a")
        await run(root, "await asyncio.sleep(0.2)")
        await until(lambda: is_gone(other))
        await until(lambda: is_gone(one))
        assert await pid(root) != one


async def test_disposing_the_plugin_ends_all_processes_and_what_they_run() -> None:
    """And waits for their ends; calls under way answer that it is gone."""
    async with tree() as (root, fiber):
        create_scope(root, "a")
        waiting = await pid(root, "a")
        results: list[ToolResult] = []
        running: list[int] = []
        arrived = anyio.Event()

        def tell(given: dict[str, Any]) -> None:
            running.append(given["value"])
            arrived.set()

        schema = {"type": "object", "properties": {"value": {}}}
        root.tools.register(Tool("tell", "", schema, run=tell))

        async def call() -> None:
            results.append(await run(root, "import os\nawait tell(os.getpid())\nwhile True: pass"))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call)
            await arrived.wait()
            await fiber.dispose()
            assert is_gone(waiting)
            assert is_gone(running[0])
        assert results[0].status == "gone"


async def test_a_plugin_that_is_gone_leaves_nothing() -> None:
    """Processes, directories, tasks, layers: however its life goes."""
    async with tree(mode=None) as (root, fiber):
        await fiber.dispose()
        async with assert_no_residue(root):
            again = await root.plugin(code_mode)
            effect = root.tools.present_as("code")
            where = (await run(root, "import os\nos.getcwd()")).value
            assert exists(where)
            await again.restart()
            assert not exists(where)
            await run(root, "1")
            await effect()
            await again.dispose()
    report = await check_plugin(code_mode, services={"tools": Tools}, raises=True)
    assert report.ok


def killed(program: str) -> Any:
    """Run a program until it has printed a line of JSON, kill it, and return what it printed."""
    command = [sys.executable, "-c", program]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as harness:
        assert harness.stdout is not None
        printed = json.loads(harness.stdout.readline())
        harness.kill()
    return printed


async def test_a_harness_that_is_killed_takes_its_processes_with_it() -> None:
    """The code may be in a loop; nobody is there to end it."""
    program = """
    import anyio
    from harness_plugins import code_mode
    from harness_plugins.tools.api import Tool, Tools
    from harness_core import Context
    from harness_core.prompt import SystemPrompt

    async def main():
        async with Context() as root:
            await root.plugin(SystemPrompt)
            await root.plugin(Tools)
            await root.plugin(code_mode)
            root.tools.present_as("code")
            schema = {"type": "object", "properties": {"value": {}}}
            tell = lambda given: print(given["value"], flush=True)
            root.tools.register(Tool("tell", "", schema, run=tell))
            code = '''
    import os, subprocess
    await tell([os.getpid(), subprocess.Popen(["sleep", "99"]).pid])
    while True: pass
    '''
            await root.tools.execute("run_code", {"code": code}, scope=None)

    anyio.run(main)
    """
    for one in killed(textwrap.dedent(program)):
        await until(lambda one=one: is_gone(one))  # type: ignore[misc]


@pytest.mark.parametrize(
    "wait",
    ["await asyncio.sleep(99)", "while not os.path.exists(go): time.sleep(0.001)"],
    ids=["while it waits", "when it has ended"],
)
async def test_a_connection_that_is_lost_ends_the_process_and_all_it_has_started(
    tmp_path: Path, wait: str
) -> None:
    """Whichever of the two ends of the harness is noticed first."""
    worker = await Worker.start(Limits(memory=2048, output=1000))
    await worker.wait_ready()
    note, go = tmp_path / "pid", tmp_path / "go"
    code = f"""
import os, subprocess, time
go = {str(go)!r}
child = subprocess.Popen(["sleep", "99"]).pid
open({str(note)!r}, "w").write(f"{{child}}\\n")
{wait}
"""

    async def call(*_: object) -> Any:
        raise AssertionError("no tool is called")

    async def run_code() -> None:
        await worker.run(code, [], call)

    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run_code)
            await until(lambda: note.exists() and note.read_text().endswith("\n"))
            await worker._connection.close()
            go.touch()
            child = int(note.read_text())
            await until(lambda: is_gone(child))
            tasks.cancel_scope.cancel()
    finally:
        await worker.end()


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"timeout": 0}, "timeout must be seconds above 0"),
        ({"timeout": float("inf")}, "timeout must be seconds above 0"),
        ({"memory": 1}, "memory must be at least 128 megabytes"),
        ({"max_output": 10}, "max_output must be at least 200"),
        ({"idle": -1}, "must not be negative"),
        ({"keep": -1}, "must not be negative"),
        ({"nope": 1}, "nope"),
    ],
)
async def test_settings_without_sense_are_refused(settings: dict[str, Any], told: str) -> None:
    """With what would have."""
    with pytest.raises(ConfigError, match=told):
        async with tree(**settings):
            pass


async def test_a_process_that_waits_keeps_no_scope_alive() -> None:
    """Law L2: whoever lets go of an agent lets go of its key."""

    class Key:
        pass

    key = Key()
    seen = weakref.ref(key)
    async with tree() as (root, _):
        scope = create_scope(root, key)
        assert (await run(root, "1", scope=key)).value == 1
        await scope.dispose()
        del scope, key
        gc.collect()
        assert seen() is None
        assert len(runners()) == 1
        first = runners()
        await run(root, "1")  # a scope that is gone is not the global layer
        assert len(runners()) == 2
        assert set(first) < set(runners())
