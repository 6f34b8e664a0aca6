"""Files that are saved in the middle of a turn: the next step is of the new code, all of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from harness_plugins.agents.loop import send

from harness_core.reload import Batch, Reloader
from tests.reload.project import open_project

from .tree import check_conversation, tool, tree, wants

pytestmark = pytest.mark.asyncio

GUIDE = """
    from harness_plugins.tools.api import Tool

    inject = ["system_prompt", "tools"]

    def apply(ctx):
        ctx.system_prompt.section("guide", "Guide VERSION.", order=1)
        ctx.system_prompt.context("news", "News VERSION.", order=1)
        ctx.tools.register(Tool("read", "Read VERSION.", run=lambda _: "read VERSION"))
"""

BRAIN = """
    from harness_plugins.llm.api import Message, Reply, ToolRequest, publish_adapter

    class Brain:
        provider = "brain"
        model = "VERSION"

        async def stream(self, request):
            if request.messages[-1].role == "user" and len(request.messages) < 3:
                asked = [ToolRequest("1", "save"), ToolRequest("2", "read")]
                yield Reply(Message("assistant", requests=asked), "tools")
            else:
                yield Reply(Message("assistant", f"brain VERSION, {request.system}"))

    def apply(ctx):
        publish_adapter(ctx, Brain())
"""


async def test_a_save_in_a_turn_is_in_the_next_step_and_nothing_is_half_swapped(
    tmp_path: Path,
) -> None:
    with open_project(tmp_path, observed=False) as project:

        def write(name: str, text: str, version: str) -> Path:
            return project.write(name, text.replace("VERSION", version))

        async with tree(provider="brain") as t:
            reloader = Reloader(t.root, [project.root], assemble=t.root.system_prompt.assemble)

            async def save(_: object) -> str:
                paths = write("guide.py", GUIDE, "two"), write("brain.py", BRAIN, "two")
                await reloader.reload(Batch(changed=frozenset(paths)))
                return "saved"

            t.root.tools.register(tool("save", save))
            for name, text in (("guide", GUIDE), ("brain", BRAIN)):
                write(f"{name}.py", text, "one")
                await t.root.plugin(project.load(name))

            result = await send(t.agent, "Go.")
            assert (result.reason, result.text) == ("done", "brain two, Guide two.")
            assert t.roles == "usattsa"
            # The second call was asked for before the save, and ran after it: in the new code.
            assert [one.text for one in t.messages if one.role == "tool"] == ["saved", "read two"]
            models = [event.data["model"] for event in t.log if "model" in event.data]
            assert models == ["one", "two"]
            snapshots = [event.data["text"] for event in t.log if event.kind == "snapshot"]
            assert [text.rpartition("\n\n")[2] for text in snapshots] == ["News one.", "News two."]
            check_conversation(t.messages)


async def test_a_save_that_is_broken_leaves_the_turn_with_the_old_code(tmp_path: Path) -> None:
    with open_project(tmp_path, observed=False) as project:
        project.write("guide.py", GUIDE.replace("VERSION", "one"))
        async with tree(wants("save"), "end") as t:
            reloader = Reloader(t.root, [project.root], assemble=t.root.system_prompt.assemble)

            async def save(_: object) -> Any:
                path = project.write("guide.py", "def apply(ctx:\n")
                await reloader.reload(Batch(changed=frozenset([path])))
                return "saved"

            t.root.tools.register(tool("save", save))
            await t.root.plugin(project.load("guide"))
            assert (await send(t.agent, "Go.")).text == "end"
            assert [one.system for one in t.model.requests] == ["Guide one."] * 2
            assert t.roles == "usata"
