"""`workspace`: three variables, nothing secret, nothing left behind."""

from __future__ import annotations

import sys
from pathlib import Path

import anyio
import attrs
import pytest
from harness_plugins import workspace
from harness_plugins.workspace.api import manifest_path, one_line, run_program

from harness_core import Context
from harness_core.prompt import SystemPrompt
from harness_core.testing import check_plugin
from tests.loader.harness import running

pytestmark = pytest.mark.asyncio


async def test_it_gives_exactly_three_variables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The working directory is that of the assembly, not of the load."""
    monkeypatch.setenv("LOGNAME", "ada")
    here = str(tmp_path.resolve())  # noqa: ASYNC240
    async with Context() as root:
        await root.plugin(SystemPrompt)
        await root.plugin(workspace)
        monkeypatch.chdir(tmp_path)
        variables = (await root.system_prompt.assemble()).variables
    assert sorted(variables) == ["cwd", "platform", "user"]
    assert variables["cwd"] == here
    assert variables["user"] == "ada"
    assert str(variables["platform"]).startswith(sys.platform.lower()[:5])


async def test_what_is_configured_stands_in_for_the_real_values() -> None:
    """Each one for itself."""
    async with Context() as root:
        await root.plugin(SystemPrompt)
        await root.plugin(workspace, {"cwd": "~/project", "platform": "os"})
        variables = (await root.system_prompt.assemble()).variables
    assert (variables["cwd"], variables["platform"]) == ("~/project", "os")


@attrs.frozen
class Agent:
    """Whoever an assembly is for."""

    cwd: Path | None


async def test_the_working_directory_is_the_agents_if_it_has_one(tmp_path: Path) -> None:
    """An agent without one works where the process does; what is configured stands for both."""
    here = str(Path.cwd())
    async with Context() as root:
        await root.plugin(SystemPrompt)
        fiber = await root.plugin(workspace)
        assemble = root.system_prompt.assemble
        for agent, cwd in ((Agent(tmp_path), str(tmp_path)), (Agent(None), here), (None, here)):
            assert (await assemble(agent=agent)).variables["cwd"] == cwd
        await fiber.update({"cwd": "~/project"})
        assert (await assemble(agent=Agent(tmp_path))).variables["cwd"] == "~/project"


async def test_a_working_directory_that_is_gone_has_no_value(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A text that refers to it fails; others do not care."""
    gone = tmp_path / "gone"
    gone.mkdir()
    async with Context() as root:
        await root.plugin(SystemPrompt)
        await root.plugin(workspace)
        monkeypatch.chdir(gone)
        gone.rmdir()
        assert (await root.system_prompt.assemble()).variables["cwd"] is None
        monkeypatch.undo()


async def test_nothing_stays() -> None:
    """Law L2."""
    async with Context() as root:
        await root.plugin(SystemPrompt)
        before = await root.system_prompt.assemble()
        fiber = await root.plugin(workspace)
        await fiber.dispose()
        assert await root.system_prompt.assemble() == before
    await check_plugin(workspace, {}, raises=True)


async def test_paths_in_settings_start_at_the_manifest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or at the working directory where there is none; `~` is the home directory."""
    monkeypatch.setenv("HOME", "/home/ada")
    manifest = "- {name: workspace}\n"
    async with running(tmp_path, "system_prompt", manifest=manifest) as (root, _):
        assert manifest_path(root, "a/../b") == str(tmp_path / "b")
        assert manifest_path(root, "~/b") == "/home/ada/b"
    async with Context() as root:
        assert manifest_path(root, "b") == str(Path.cwd() / "b")


async def python(program: str, limit: int = 1000) -> tuple[int, bytes, bytes, bool]:
    outcome = await run_program([sys.executable, "-c", program], limit=limit)
    assert outcome is not None
    return outcome.code, outcome.output, outcome.errors, outcome.is_cut


async def test_a_program_says_what_it_says_and_how_it_ended() -> None:
    """It has no input, and a limit of output; what it says besides holds nothing up."""
    said = "import sys; print(sys.stdin.read(), 'out', end=''); sys.exit('err')"
    assert await python(said) == (1, b" out", b"err\n", False)
    with anyio.fail_after(20):
        flood = "import sys; sys.stderr.write('e' * 1_000_000); print('out', end='')"
        code, output, errors, is_cut = await python(flood)
        assert (code, output, len(errors), is_cut) == (0, b"out", 10_000, False)
        endless = "while True: print('x' * 1000)"
        code, output, _, is_cut = await python(endless, limit=5)
        assert (output, is_cut) == (b"xxxxx", True)
        assert code != 0
    assert await run_program(["/nowhere/program"], limit=5) is None


async def test_a_text_on_one_line() -> None:
    """Cut with a note, if it is long; other alphabets stay as they are."""
    assert one_line("a\tb\u00a0\u202e\u4e16") == "a\\tb\\xa0\\u202e\u4e16"
    assert one_line("abcdef", 6) == "abcdef"
    assert one_line("abcdefg", 6) == "abc..."
