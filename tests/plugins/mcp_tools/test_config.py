"""The settings: refused before anything is started, with every fault in its place."""

from __future__ import annotations

from typing import Any

import pytest
from harness_plugins import mcp_tools
from harness_plugins.mcp_tools import Config, ServerConfig
from harness_plugins.tools.api import Tools

from harness_core import Context, FiberState
from harness_core.errors import ConfigError
from harness_core.prompt import SystemPrompt

RUN: dict[str, Any] = {"command": "run"}
WEB: dict[str, Any] = {"url": "http://localhost/mcp"}
BAD: dict[str, tuple[dict[str, Any], str]] = {
    "neither": ({}, "expected either `command` or `url`, got neither"),
    "both": ({**RUN, **WEB}, "expected either `command` or `url`, got both"),
    "headers of a process": ({**RUN, "headers": {"A": "b"}}, "`headers` has no meaning beside"),
    "arguments of a URL": ({**WEB, "args": ["a"]}, "`args` has no meaning beside `url`"),
    "environment of a URL": ({**WEB, "env": {"A": "b"}}, "`env` has no meaning beside `url`"),
    "directory of a URL": ({**WEB, "cwd": "."}, "`cwd` has no meaning beside `url`"),
    "empty command": ({"command": " "}, "`command` is empty"),
    "command with NUL": ({"command": "a", "args": ["\0"]}, "cannot hold NUL"),
    "variable without a name": ({**RUN, "env": {"": "b"}}, "`env`: '' is no variable"),
    "variable that is two": ({**RUN, "env": {"A=B": "c"}}, "`env`: 'A=B' is no variable"),
    "number in the environment": ({**RUN, "env": {"A": 5}}, "expected str, got 5 (int)"),
    "text as a list": ({**RUN, "args": "-m x"}, "expected a list, got '-m x'"),
    "URL of a file": ({"url": "file:///a"}, "expected http://... or https://..."),
    "URL without a host": ({"url": "http://"}, "expected http://... or https://..."),
    "URL with a bad port": ({"url": "http://a:x/"}, "`url` is 'http://a:x/'"),
    "header with a space": ({**WEB, "headers": {"A b": "c"}}, "'A b' is no name of a header"),
    "header of two lines": ({**WEB, "headers": {"A": "b\nC: d"}}, "the value of 'A' holds"),
    "prefix with a space": ({**RUN, "prefix": "a b"}, "`prefix` is 'a b'"),
    "no time to connect": ({**RUN, "connect_timeout": 0}, "`connect_timeout` is 0"),
    "endless time": ({**RUN, "call_timeout": float("inf")}, "`call_timeout` is inf"),
    "no pause": ({**RUN, "retry": -1}, "`retry` is -1"),
    "pauses that shrink": ({**RUN, "retry": 5, "retry_max": 1}, "`retry_max` is 1"),
    "no room": ({**RUN, "max_output": 5}, "`max_output` is 5: expected at least 200"),
    "order of nothing": ({**RUN, "order": float("nan")}, "`order` is nan"),
    "truth as text": ({**RUN, "required": "yes"}, "expected bool, got 'yes'"),
    "typing mistake": ({**RUN, "timeout": 5}, "unknown key 'timeout'"),
    "near typing mistake": ({**RUN, "call_timeot": 5}, "did you mean 'call_timeout'?"),
}


@pytest.mark.asyncio
@pytest.mark.parametrize(("settings", "said"), BAD.values(), ids=BAD)
async def test_bad_settings_are_refused_with_the_name_of_the_server(
    settings: dict[str, Any], said: str
) -> None:
    """And say what would have been right."""
    async with Context() as root:
        await root.plugin(SystemPrompt)
        await root.plugin(Tools)
        fiber = root.plugin(mcp_tools, {"servers": {"good": RUN, "bad": settings}})
        with pytest.raises(ConfigError) as caught:
            await fiber
        assert fiber.state is FiberState.FAILED
        assert fiber.children == ()
        assert said in str(caught.value)
        assert "bad" in str(caught.value)


@pytest.mark.parametrize("name", ["", "a b", "a/b", "ü"])
def test_a_server_has_a_name_that_can_be_written(name: str) -> None:
    """It stands in names of contexts, and in paths of fibers."""
    with pytest.raises(ValueError, match="is no name of a server"):
        Config({name: ServerConfig(command="run")})


def test_every_problem_of_a_server_is_listed_at_once() -> None:
    """Nobody likes to hear of the next one only when the first is gone."""
    with pytest.raises(ValueError, match=r"`prefix`.*; `retry`.*; `max_output`"):
        ServerConfig(command="run", prefix=" ", retry=0, max_output=1)


def test_good_settings_of_both_kinds() -> None:
    """With everything that they can hold."""
    ServerConfig(command="run", args=("a",), env={"A": ""}, cwd=".", shutdown_timeout=1)
    ServerConfig(url="https://example.org:8443/mcp?x=1", headers={"Authorization": "Bearer x"})
