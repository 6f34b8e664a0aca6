"""`tmux_context`: a real tmux, and a process that is really inside one of its panes."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import attrs
import pytest
from harness_plugins import tmux_context
from harness_plugins.tmux_context.ancestors import ancestors_of
from harness_plugins.tmux_context.panes import Pane
from harness_plugins.tmux_context.wording import quote
from hypothesis import given
from hypothesis import strategies as st

from harness_core import Context
from harness_core.errors import ConfigError
from harness_core.prompt import PromptAssembly, SystemPrompt
from harness_core.testing import check_plugin

needs_tmux = pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")
PATIENCE = 20.0

INSIDE = """
import json, sys
import anyio
from harness_core import Context
from harness_core.prompt import SystemPrompt
from harness_plugins import tmux_context


async def main(config, answer):
    async with Context() as root:
        await root.plugin(SystemPrompt)
        await root.plugin(tmux_context, config)
        assembly = await root.system_prompt.assemble()
        (context,) = assembly.contexts
    await anyio.Path(answer + ".part").write_text(context.text, encoding="utf-8")
    await anyio.Path(answer + ".part").rename(answer)


anyio.run(main, json.loads(sys.argv[1]), sys.argv[2])
"""
"""What runs inside a pane: one assembly, whose text goes into a file."""


@attrs.frozen
class Server:
    """A tmux server of this test's own, with one session of one window."""

    socket: Path
    directory: Path

    def __call__(self, *arguments: str) -> str:
        command = ["tmux", "-u", "-S", str(self.socket), "-f", "/dev/null", *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    @property
    def variable(self) -> str:
        """TMUX, as processes in its panes have it."""
        return self("display-message", "-p", "#{socket_path},#{pid},0")

    def wait_until(self, pane: str, wanted: str) -> None:
        """Wait until the pane shows something."""
        end = time.monotonic() + PATIENCE
        while wanted not in self("capture-pane", "-p", "-t", pane):
            assert time.monotonic() < end, self("capture-pane", "-p", "-t", pane)
            time.sleep(0.02)

    def inside(self, window: str = "agent", before: str = "", **config: Any) -> str:
        """Return what the plugin says in a pane of its own, in this window."""
        answer = self.directory / f"answer.{len(list(self.directory.glob('answer.*')))}"
        script = self.directory / "inside.py"
        script.write_text(INSIDE)
        words = [sys.executable, str(script), json.dumps(config), str(answer)]
        line = before + shlex.join(words) + f" 2>{answer}.error; exec sleep 1000"
        pane = self("split-window", "-d", "-t", window, "-P", "-F", "#{pane_id}", line)
        end = time.monotonic() + PATIENCE
        while not answer.exists():
            error = Path(f"{answer}.error")
            assert time.monotonic() < end, error.read_text() if error.exists() else "not begun"
            time.sleep(0.02)
        self("kill-pane", "-t", pane)
        return answer.read_text(encoding="utf-8")


@pytest.fixture
def tmux(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """A server; it is ended with the test."""
    monkeypatch.delenv("TMUX", raising=False)
    monkeypatch.delenv("TMUX_PANE", raising=False)
    server = Server(Path("/tmp") / f"tmux-test-{os.getpid()}-{time.monotonic_ns()}", tmp_path)
    size = ("-x", "120", "-y", "60")
    server("new-session", "-d", *size, "-s", "work", "-n", "agent", "printf 'one\\n'; sleep 1000")
    try:
        server.wait_until("%0", "one")
        yield server
    finally:
        server("kill-server")
        server.socket.unlink(missing_ok=True)


async def assemble(**config: Any) -> PromptAssembly:
    async with Context() as root:
        await root.plugin(SystemPrompt)
        await root.plugin(tmux_context, config)
        return await root.system_prompt.assemble()


async def said(**config: Any) -> str:
    (context,) = (await assemble(**config)).contexts
    assert (context.name, context.literal) == ("tmux", True)
    return context.text


@needs_tmux
def test_inside_a_pane_it_tells_where_it_is(tmux: Server) -> None:
    """Session, window, pane, and what runs beside it."""
    assert tmux.inside() == (
        'Tmux session "work", window 0 "agent", pane 1 (%1)\n'
        "Other panes of this window (1):\n"
        "  pane 0 (%0) runs sleep"
    )
    tmux("rename-window", "-t", "agent", "the agent's")
    tmux("rename-session", "-t", "work", "day job")
    assert tmux.inside("the agent's", panes=0) == (
        'Tmux session "day job", window 0 "the agent\'s", pane 1 (%2)'
    )


@needs_tmux
def test_it_is_inside_also_below_other_processes(tmux: Server) -> None:
    """A shell in a shell; and with what other panes are titled and how many there are."""
    tmux("select-pane", "-t", "%0", "-T", 'logs "of" {{today}}')
    for _ in range(2):
        tmux("split-window", "-d", "-t", "agent", "sleep 1000")
    text = tmux.inside(before="sh -c '\"$@\"; :' sh ", panes=2)
    lines = text.split("\n")
    assert lines[1] == "Other panes of this window (3):"
    assert "  pane 0 (%0) runs sleep, titled \"logs 'of' {{today}}\"" in lines
    assert lines[-1] == "  ... and 1 more"


@needs_tmux
def test_titles_are_told_as_they_are_whatever_the_locale(tmux: Server) -> None:
    """Where it is none of this century, too."""
    tmux("select-pane", "-t", "%0", "-T", "th\u00e4ree")
    text = tmux.inside(before="env -u LANG -u LC_CTYPE LC_ALL=C ")
    assert 'titled "th\u00e4ree"' in text


@needs_tmux
def test_the_last_lines_of_a_chosen_pane_are_shown_behind_a_bar(tmux: Server) -> None:
    """By its id or its index, as many as configured, as data."""
    shown = "\n  | ".join(["Last lines of pane 0 (%0):", "{{two}}", "", "th\u00e4ree"])
    tmux(
        "respawn-pane",
        "-k",
        "-t",
        "%0",
        "printf 'one\\n{{two}}\\n\\n\\033[31mth\u00e4ree\\033[0m\\n'; sleep 1000",
    )
    tmux.wait_until("%0", "th\u00e4ree")
    text = tmux.inside(capture="%0", lines=3)
    assert [line.rstrip() for line in text.split("\n")[-4:]] == [
        line.rstrip() for line in shown.split("\n")
    ]
    assert tmux.inside(capture="0", lines=1).endswith("(%0):\n  | th\u00e4ree")
    assert "one" not in text


@needs_tmux
def test_what_is_out_of_sight_may_be_asked_for_and_a_pane_may_be_empty(tmux: Server) -> None:
    """Lines are taken from the history, and long ones are cut."""
    long = "x" * 300
    tmux("respawn-pane", "-k", "-t", "%0", f"seq 1000; echo {long}; sleep 1000")
    tmux.wait_until("%0", "x" * 50)
    lines = tmux.inside(capture="%0", lines=100).split("\n")
    assert lines[-100:-98] == ["  | 902", "  | 903"]
    assert lines[-1] == f"  | {'x' * 197}..."
    tmux("respawn-pane", "-k", "-t", "%0", "sleep 1000")
    tmux("clear-history", "-t", "%0")
    assert tmux.inside(capture="%0").endswith("\nPane 0 (%0) is empty.")


@needs_tmux
def test_a_pane_that_is_not_there_and_the_own_one_are_not_shown(tmux: Server) -> None:
    """With the reason."""
    assert tmux.inside(capture="%77").endswith(
        "\nPane %77 is not shown: there is no such pane in this window."
    )
    assert tmux.inside(capture="1").endswith("\nPane 1 is not shown: it is this one.")


@needs_tmux
def test_a_pane_whose_program_has_ended_says_so(tmux: Server) -> None:
    """If tmux keeps it."""
    tmux("set-option", "-g", "remain-on-exit", "on")
    tmux("respawn-pane", "-k", "-t", "%0", "exit 3")
    end = time.monotonic() + PATIENCE
    while tmux("display-message", "-p", "-t", "%0", "#{pane_dead}") != "1":
        assert time.monotonic() < end
        time.sleep(0.02)
    assert "pane 0 (%0) has ended" in tmux.inside()


@needs_tmux
@pytest.mark.asyncio
async def test_the_variables_alone_prove_nothing(
    tmux: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This process has not been started in that pane, so it is silent."""
    monkeypatch.setenv("TMUX", tmux.variable)
    monkeypatch.setenv("TMUX_PANE", "%0")
    assert await said() == ""
    monkeypatch.setenv("TMUX_PANE", "%99")
    assert await said() == ""


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("variable", "pane"),
    [
        ("", "%0"),
        ("/nowhere/socket,1,0", "%0"),
        ("/nowhere/socket,1,0", ""),
        ("/nowhere/socket", "%0"),
        ("/nowhere/socket,1,0", "-t"),
    ],
)
async def test_silent_outside(monkeypatch: pytest.MonkeyPatch, variable: str, pane: str) -> None:
    """No variables, no server, or nonsense."""
    monkeypatch.setenv("TMUX", variable)
    monkeypatch.setenv("TMUX_PANE", pane)
    assert await said() == ""


@pytest.mark.asyncio
async def test_silent_without_tmux(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There need not be any."""
    monkeypatch.setenv("TMUX", "/nowhere/socket,1,0")
    monkeypatch.setenv("TMUX_PANE", "%0")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert await said() == ""


def _fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """Put a program called tmux in front: a real process that answers as tmux never would."""
    program = tmp_path / "tmux"
    program.write_text(f"#!{sys.executable}\n{script}")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("TMUX", "/nowhere/socket,1,0")
    monkeypatch.setenv("TMUX_PANE", "%1")


@pytest.mark.asyncio
async def test_what_takes_too_long_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And reported; the assembly goes on, and the process is ended."""
    pid = tmp_path / "pid"
    script = f"import os, time\nopen({str(pid)!r}, 'w').write(str(os.getpid()))\ntime.sleep(60)\n"
    _fake(tmp_path, monkeypatch, script)
    assembly = await assemble(timeout=1.0)
    assert assembly.contexts == []
    assert [one.status for one in assembly.explain() if one.kind == "context"] == ["failed"]
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)


@pytest.mark.asyncio
async def test_names_and_commands_cannot_begin_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever characters are in them, and however long they are."""
    rows = [
        ["%1", str(os.getpid()), "0", "0", "host", 's"1', "0", "w\x1b[31m", "host", "python"],
        ["%2", "7", "1", "0", "host", "s", "0", "w", "\u202etitle\u2028", "\x1b]0;evil\ncommand"],
        ["%3", "7", "2", "0", "host", "s", "0", "w", "t" * 500, ""],
    ]
    answer = "\n".join("\x1f".join(row) for row in rows)
    _fake(tmp_path, monkeypatch, f"import sys\nsys.stdout.buffer.write({answer.encode()!r})\n")
    assert await said() == (
        'Tmux session "s\'1", window 0 "w\\x1b[31m", pane 0 (%1)\n'
        "Other panes of this window (2):\n"
        '  pane 1 (%2) runs \\x1b]0;evil, titled "\\u202etitle\\u2028"\n'
        f'  pane 2 (%3) runs (unknown), titled "{"t" * 117}..."'
    )


@pytest.mark.asyncio
async def test_a_process_descends_from_its_parents() -> None:
    """And from nobody else."""
    found = await ancestors_of(os.getpid())
    assert {os.getpid(), os.getppid()} <= found
    async with await anyio.open_process(["sleep", "60"]) as child:
        assert child.pid not in found
        assert await ancestors_of(child.pid) == {child.pid, *found}
        child.kill()


@pytest.mark.asyncio
async def test_without_proc_the_system_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """`ps` says the same."""
    if shutil.which("ps") is None:
        pytest.skip("ps is not installed")
    known = await ancestors_of(os.getpid())
    monkeypatch.setattr("harness_plugins.tmux_context.ancestors._HAS_PROC", False)
    assert await ancestors_of(os.getpid()) == known


@pytest.mark.asyncio
@pytest.mark.parametrize(
    "config",
    [{"timeout": 0}, {"panes": -1}, {"lines": 0}, {"lines": 501}, {"capture": "-t"}],
)
async def test_impossible_settings_are_refused(config: dict[str, Any]) -> None:
    """At load."""
    async with Context() as root:
        await root.plugin(SystemPrompt)
        with pytest.raises(ConfigError, match=next(iter(config))):
            await root.plugin(tmux_context, config)


@pytest.mark.asyncio
async def test_it_is_off_when_it_is_off_and_leaves_nothing() -> None:
    """`enabled: false` registers nothing; its life leaves nothing."""
    assert (await assemble(enabled=False)).contexts == []
    await check_plugin(tmux_context, {}, raises=True)


@given(st.lists(st.text(max_size=40), max_size=6))
def test_captured_lines_cannot_leave_their_quotation(lines: list[str]) -> None:
    """Every one is a line behind a bar, whatever is in it."""
    pane = Pane("%1", 1, "0", False, "s", "0", "w", "", "sh")
    first, *rest = quote(pane, lines).splitlines()
    assert (first, len(rest)) == (
        ("Last lines of pane 0 (%1):", len(lines)) if lines else ("Pane 0 (%1) is empty.", 0)
    )
    assert all(line.startswith("  |") for line in rest)
