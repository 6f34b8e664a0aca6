"""Runtime-context snapshots: written when they say something new, and by whom."""

from __future__ import annotations

import pytest
from harness_plugins.session.api import Session, compact, snapshot_of
from harness_plugins.session.history import GONE

from harness_core import Context
from harness_core.prompt import PromptAssembly, SystemPrompt, render_context_snapshot

from .words import filled, user

pytestmark = pytest.mark.asyncio


async def take_step(session: Session, assembly: PromptAssembly) -> bool:
    """Write the snapshot if there is one to write, as a step of the loop does."""
    draft = snapshot_of(assembly, session.history)
    if draft is not None:
        await session.append_all([draft])
    return draft is not None


async def test_a_snapshot_is_written_once_then_on_change_and_again_after_compaction() -> None:
    """And once more when all contexts have gone."""
    session = await filled(user("1"))
    async with Context() as root:
        await root.plugin(SystemPrompt)
        assert not await take_step(session, await root.system_prompt.assemble())

        def clock(ctx: Context) -> None:
            ctx.system_prompt.context("clock", "noon", order=1)

        clock.inject = ["system_prompt"]  # type: ignore[attr-defined]
        fiber = await root.plugin(clock)
        noon = await root.system_prompt.assemble()
        assert await take_step(session, noon)
        assert not await take_step(session, noon)
        (_, snapshot) = session.history.messages
        assert (snapshot.role, snapshot.text) == ("user", render_context_snapshot(noon))
        assert session.events[-1].data["sources"] == [{"name": "clock", "plugin": "clock"}]

        async def summarise(_: object) -> str:
            return "so far"

        await compact(session, summarise, keep=0)
        assert session.history.snapshot is None
        assert await take_step(session, noon)
        assert not await take_step(session, noon)

        await fiber.dispose()
        nothing = await root.system_prompt.assemble()
        assert await take_step(session, nothing)
        assert not await take_step(session, nothing)
        assert session.history.messages[-1].text == GONE
        assert session.events[-1].data == {"text": "", "sources": []}


async def test_a_context_without_a_text_is_no_contributor() -> None:
    """It is not in the snapshot."""
    async with Context() as root:
        await root.plugin(SystemPrompt)
        root.system_prompt.context("empty", "", order=1)
        root.system_prompt.context("full", "x", order=2)
        draft = snapshot_of(await root.system_prompt.assemble(), Session("s").history)
    assert draft is not None
    assert [one["name"] for one in draft.data["sources"]] == ["full"]
