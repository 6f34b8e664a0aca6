"""`workspace`: three variables, nothing secret, nothing left behind."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from harness_plugins import workspace

from harness_core import Context
from harness_core.prompt import SystemPrompt

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
