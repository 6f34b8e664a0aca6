"""Servers come up, or do not, go away, and come back; and are gone when their fiber is."""

from __future__ import annotations

import json
import logging
import os
import sys
import time
from pathlib import Path
from typing import Any

import anyio
import pytest
from harness_plugins import mcp_tools
from harness_plugins.tools.api import Tools
from mcp.client.stdio import DEFAULT_INHERITED_ENV_VARS

from harness_core import Context, FiberState, create_scope
from harness_core.prompt import SystemPrompt
from harness_core.testing import assert_no_residue

from .living import (
    Changes,
    Reports,
    call,
    is_alive,
    living,
    mount,
    names,
    pids,
    server,
    tree,
    until,
)

pytestmark = pytest.mark.asyncio

ONCE = {"retry": 60, "retry_max": 60}


async def test_the_tools_are_there_when_the_plugin_is() -> None:
    """Though the server takes its time."""
    async with tree() as root:
        await mount(root, one=server(start=0.2))
        assert names(root) == ["echo"]


async def test_each_server_is_a_fiber_of_its_own() -> None:
    """Which owns what it registers."""
    async with tree() as root:
        fiber = await mount(root, one=server({"prefix": "a_"}), two=server())
        assert [child.name for child in fiber.children] == ["mcp:one", "mcp:two"]
        assert [child.state for child in fiber.children] == [FiberState.ACTIVE] * 2
        labels = [effect.label for effect in fiber.children[0].effects()]
        assert labels == ['task "connection to one"', "farewell to one", 'tool "a_echo"']
        origin = (await root.system_prompt.assemble()).tools[0].origin
        assert origin is not None
        assert origin.plugin == "mcp:one"


async def test_no_servers_are_no_plugin_that_fails() -> None:
    """An empty config is one."""
    async with tree() as root:
        fiber = await root.plugin(mcp_tools)
        assert fiber.state is FiberState.ACTIVE
        assert fiber.children == ()


FAILURES: dict[str, tuple[dict[str, Any], list[str]]] = {
    "dies at the start": (
        server(ONCE, die="start"),
        ["did not come up", "exit code 3", "no licence"],
    ),
    "dies at the handshake": (server(ONCE, die="initialize"), ["did not come up", "exit code 3"]),
    "dies at the listing": (server(ONCE, die="tools/list"), ["did not come up", "exit code 3"]),
    "dies at the list of prompts": (
        server({**ONCE, "prompts": {"*": {}}}, die="prompts/list"),
        ["did not come up", "exit code 3"],
    ),
    "never answers": (
        server({**ONCE, "connect_timeout": 0.3}, mute="initialize"),
        ["did not come up", "did not answer within 0.3 s"],
    ),
    "never answers and does not want to go": (
        server(
            {**ONCE, "connect_timeout": 0.3, "shutdown_timeout": 0.1},
            mute="initialize",
            stubborn=True,
        ),
        ["did not come up", "did not answer within 0.3 s", "signal 9"],
    ),
    "never lists": (
        server({**ONCE, "connect_timeout": 0.3}, mute="tools/list"),
        ["did not answer within 0.3 s"],
    ),
    "is no program": ({"command": "no-such-program", **ONCE}, ["no program 'no-such-program'"]),
    "has no place": ({**server(ONCE), "cwd": "/no/such/place"}, ["no directory '/no/such/place'"]),
    "speaks something else": (
        {"command": sys.executable, "args": ["-c", "print('hi')"], **ONCE},
        ["did not come up", "exit code 0"],
    ),
}


@pytest.mark.parametrize(("bad", "said"), FAILURES.values(), ids=FAILURES)
async def test_a_server_that_does_not_come_up_is_reported_and_harms_nobody(
    bad: dict[str, Any], said: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    """The error says which server, and why; it is in the log, and `fiber/error` tells it."""
    async with tree() as root:
        reports = Reports(root)
        fiber = await mount(root, good=server(), bad=bad)
        assert fiber.state is FiberState.ACTIVE
        assert names(root) == ["echo"]
        ((who, text),) = reports.errors
        assert who == "mcp:bad"
        for part in ('server "bad"', *said):
            assert part in text
        assert part in caplog.text


async def test_one_that_must_come_up_fails_the_plugin() -> None:
    """With the reason; and nothing is left of the others."""
    async with tree() as root:
        reports = Reports(root)
        bad = server({"required": True}, die="start")
        async with assert_no_residue(root):
            fiber = root.plugin(mcp_tools, {"servers": {"good": server(), "bad": bad}})
            with pytest.raises(RuntimeError, match=r"(?s)did not come up.*no licence"):
                await fiber
            assert fiber.state is FiberState.FAILED
            assert names(root) == []
            assert {who for who, _ in reports.errors} == {"mcp_tools", "mcp:bad"}
            await fiber.dispose()


async def test_it_is_tried_again_until_it_comes_up(tmp_path: Path) -> None:
    """The same failure is said once."""
    async with tree() as root:
        reports = Reports(root)
        settings = server(die="start", die_runs=3, directory=str(tmp_path))
        await mount(root, one=settings)
        await until(lambda: names(root) == ["echo"])
        assert len(pids(tmp_path)) == 4
        assert len(reports.errors) == 1


async def test_when_a_server_dies_its_tools_go_and_come_back(tmp_path: Path) -> None:
    """Each is one change of the prompt; what was said last is in the report."""
    async with tree() as root:
        reports = Reports(root)
        settings = server(
            {"retry": 0.3, "retry_max": 1}, tools=["a", "crash"], errors=2, directory=str(tmp_path)
        )
        fiber = await mount(root, one=settings, two=server(tools=["b"]))
        changes = Changes(root)
        await call(root, "crash")
        await until(lambda: names(root) == ["b"])
        assert changes.taken() == 2
        assert (await root.system_prompt.assemble()).tools[0].name == "b"
        assert (await call(root, "a")).status == "unknown"
        await until(lambda: names(root) == ["a", "b", "crash"])
        assert changes.taken() == 2
        assert (await call(root, "a")).status == "ok"
        assert fiber.children[0].state is FiberState.ACTIVE
        ((who, text),) = reports.errors
        assert who == "mcp:one"
        assert 'server "one" went away' in text
        assert "exit code 7" in text
        assert "complaint 1" in text
        assert len(living(tmp_path)) == 1


async def test_a_server_that_dies_after_a_while_is_started_again(tmp_path: Path) -> None:
    """Without a call, too; and as often as it dies."""
    async with tree() as root:
        await mount(root, one=server(life=0.1, directory=str(tmp_path)))
        await until(lambda: len(pids(tmp_path)) >= 3)
        await until(lambda: names(root) == ["echo"])


async def test_a_server_that_dies_while_its_child_holds_the_pipe_is_missed(tmp_path: Path) -> None:
    """And the child goes with it."""
    async with tree() as root:
        settings = server(tools=["crash"], child="child", directory=str(tmp_path))
        await mount(root, one=settings)
        before = pids(tmp_path)
        assert len(before) == 2
        await call(root, "crash")
        await until(lambda: len(pids(tmp_path)) == 4)
        await until(lambda: names(root) == ["crash"])
        assert not any(map(is_alive, before))


@pytest.mark.parametrize("child", ["", "child", "detached", "bare detached"])
@pytest.mark.parametrize("stubborn", [False, True])
async def test_nothing_is_left_of_a_server_when_its_fiber_is_disposed(
    child: str, stubborn: bool, tmp_path: Path
) -> None:
    """Neither of it nor of its children, in its group or not; though it does not want to go."""
    async with tree() as root:
        settings = server(
            {"shutdown_timeout": 0.15}, child=child, stubborn=stubborn, directory=str(tmp_path)
        )
        async with assert_no_residue(root):
            fiber = await mount(root, one=settings)
            assert len(living(tmp_path)) == (2 if child else 1)
            await fiber.dispose()
            assert living(tmp_path) == []
            assert names(root) == []


async def test_servers_that_do_not_want_to_go_take_their_time_at_once(tmp_path: Path) -> None:
    """Six of them are no slower than one."""
    async with tree() as root:
        settings = server(
            {"shutdown_timeout": 0.3}, tools=[], stubborn=True, directory=str(tmp_path)
        )
        fiber = await mount(root, **{f"s{n}": settings for n in range(6)})
        began = time.monotonic()
        await fiber.dispose()
        assert time.monotonic() - began < 3 * 0.6
        assert living(tmp_path) == []


@pytest.mark.parametrize("faults", [{"start": 30}, {"mute": "initialize"}, {"mute": "tools/list"}])
async def test_a_server_that_is_still_coming_up_is_ended_at_once(
    faults: dict[str, Any], tmp_path: Path
) -> None:
    """Disposal does not wait for its deadline."""
    async with tree() as root, assert_no_residue(root):
        settings = server({"shutdown_timeout": 0.1}, directory=str(tmp_path), **faults)
        fiber = root.plugin(mcp_tools, {"servers": {"one": settings}})
        await until(lambda: pids(tmp_path))
        with anyio.fail_after(5):
            await fiber.dispose()
        assert living(tmp_path) == []


async def test_a_fiber_that_waits_for_its_next_attempt_is_ended_at_once() -> None:
    """However long the pause."""
    async with tree() as root, assert_no_residue(root):
        fiber = await mount(root, one=server(ONCE, die="start"))
        with anyio.fail_after(5):
            await fiber.dispose()


async def test_a_tree_that_is_cancelled_leaves_no_process(tmp_path: Path) -> None:
    """Whatever it was doing."""
    with anyio.CancelScope() as scope:
        async with tree() as root:
            await mount(root, one=server(child="child", directory=str(tmp_path)))
            scope.cancel()
            await anyio.sleep_forever()
    assert len(pids(tmp_path)) == 2
    assert living(tmp_path) == []


async def test_a_server_is_seen_where_it_is_mounted() -> None:
    """In its scope, and below."""
    async with tree() as root:
        scope = create_scope(root, "agent")
        await mount(scope.ctx, one=server())
        assert names(root) == []
        assert list(root.tools.visible("agent")) == ["echo"]
        await scope.dispose()
        assert list(root.tools.visible("agent")) == []


async def test_a_reload_never_shows_a_prompt_without_the_tools() -> None:
    """An assembly waits for the server to be back."""
    async with tree() as root:
        fiber = await mount(root, one=server(start=0.1))
        before = await root.system_prompt.assemble()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(fiber.restart)
            await until(lambda: fiber.state is not FiberState.ACTIVE)
            assert await root.system_prompt.assemble() == before


async def test_an_update_touches_only_the_servers_whose_settings_have_changed(
    tmp_path: Path,
) -> None:
    """What stays keeps its process; what goes is gone; what comes is there."""
    places = {name: tmp_path / name for name in ("stays", "changes", "goes", "comes")}
    for place in places.values():
        place.mkdir()

    def settings(name: str, tool: str) -> dict[str, Any]:
        return server(tools=[tool], directory=str(places[name]))

    async with tree() as root:
        stays = settings("stays", "a")
        fiber = await mount(
            root, stays=stays, changes=settings("changes", "b"), goes=settings("goes", "c")
        )
        before = {name: living(place) for name, place in places.items()}
        await fiber.update(
            {
                "servers": {
                    "stays": stays,
                    "changes": settings("changes", "b2"),
                    "comes": settings("comes", "d"),
                }
            }
        )
        assert names(root) == ["a", "b2", "d"]
        assert living(places["stays"]) == before["stays"]
        assert living(places["changes"]) != before["changes"]
        assert [len(living(places[name])) for name in ("changes", "goes", "comes")] == [1, 0, 1]
        await fiber.update({"servers": {}})
        assert names(root) == []
        assert not any(living(place) for place in places.values())


@pytest.mark.parametrize("name", ["one", "two"])
async def test_an_update_to_a_server_that_must_come_up_and_does_not_is_taken_back(
    name: str,
) -> None:
    """Whether it is there already or comes; the old settings go on, all of them."""
    async with tree() as root:
        fiber = await mount(root, one=server(tools=["a"]), other=server(tools=["b"]))
        bad = server({"required": True}, die="start")
        with pytest.raises(RuntimeError, match="did not come up"):
            await fiber.update({"servers": {name: bad}})
        assert names(root) == ["a", "b"]
        assert [child.name for child in fiber.children] == ["mcp:one", "mcp:other"]


async def test_noise_on_the_output_kills_nobody(caplog: pytest.LogCaptureFixture) -> None:
    """Text, broken JSON, JSON that is no message, and what is no text; the log shows it."""
    caplog.set_level(logging.INFO)
    async with tree() as root:
        await mount(root, loud=server(noise=True))
        for _ in range(3):
            assert (await call(root, "echo", a=1)).text == '{"a": 1}'
    assert "server loud, no protocol on stdout: Hello! {" in caplog.text
    assert "\x1b" not in caplog.text


async def test_the_standard_error_goes_to_the_log_in_moderation(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """With the name of the server."""
    caplog.set_level(logging.INFO)
    async with tree() as root:
        await mount(root, loud=server(errors=500))
        await until(lambda: "server loud, stderr: complaint 50\n" in caplog.text)
    lines = [one for one in caplog.messages if "complaint" in one]
    assert len(lines) == 100
    assert "server loud: 400 more lines were left out" in caplog.messages


async def test_a_server_gets_little_of_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No secrets of ours; and what its settings say."""
    monkeypatch.setenv("SECRET_TOKEN", "secret")
    monkeypatch.setenv("HOME", "/home/of/tests")
    settings = {**server(tools=["environment"]), "env": {"EXTRA": "5"}, "cwd": str(tmp_path)}
    async with tree() as root:
        await mount(root, one=settings)
        text = (await call(root, "environment")).text
        found = set(json.loads(text)["environment"])
        assert found <= {*DEFAULT_INHERITED_ENV_VARS, "EXTRA", "HARNESS_MCP_SERVER", "LC_CTYPE"}
        assert "secret" not in text
        for part in (
            '"EXTRA": "5"',
            '"HOME": "/home/of/tests"',
            '"PATH"',
            f'"directory": "{tmp_path}"',
        ):
            assert part in text


async def test_a_server_has_a_session_of_its_own(tmp_path: Path) -> None:
    """An interrupt from the keyboard is for us, and not for it."""
    async with tree() as root:
        await mount(root, one=server(directory=str(tmp_path)))
        (pid,) = pids(tmp_path)
        assert os.getsid(pid) == pid != os.getsid(0)


async def test_a_relative_directory_begins_at_the_manifest(tmp_path: Path) -> None:
    """As everywhere in a manifest."""

    class Loader:
        directory = tmp_path

    (tmp_path / "below").mkdir()
    async with Context() as root:
        await root.plugin(SystemPrompt)
        await root.plugin(Tools)
        root.provide("loader", Loader())
        for cwd, place in (({"cwd": "below"}, tmp_path / "below"), ({}, tmp_path)):
            fiber = await mount(root, one={**server(tools=["environment"]), **cwd})
            assert f'"directory": "{place}"' in (await call(root, "environment")).text
            await fiber.dispose()
