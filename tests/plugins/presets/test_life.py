"""The plugins of a preset are reloaded like any other; the services leave nothing behind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import harness_plugins.agents
import harness_plugins.presets
import pytest
from harness_plugins.presets.api import Presets, find_presets

from harness_core import Context
from harness_core.loader import Loader, Resolver, read_manifest, settle
from harness_core.prompt import render_prompt
from harness_core.reload import Batch, Reloader
from harness_core.testing import check_plugin
from tests.loader.harness import write_files

pytestmark = pytest.mark.asyncio

RULE = """
    inject = ["system_prompt"]

    def apply(ctx):
        ctx.system_prompt.section("rule", "{text}", order=10)
"""

MANIFEST = """
- {name: system_prompt, config: {include_harness_identity: false}}
- name: presets
  config: {presets: {coder: {persona: P., plugins: [{name: ./rule.py}]}}}
- {name: agents, config: {agents: {declared: {preset: coder}}}}
"""


async def test_code_of_a_preset_is_reloaded_where_it_runs(tmp_path: Path) -> None:
    """Those who have joined get it at once, without a gap; a bad save costs nothing."""
    write_files(tmp_path, manifest=MANIFEST, rule=RULE.format(text="Old."))
    manifest = read_manifest(tmp_path / "harness.yaml")
    loader = Loader(manifest, Resolver(manifest.directory))
    async with Context() as root:
        root.provide("loader", loader)
        reloader = Reloader(root, [tmp_path])
        stop = reloader.graph.observe()
        try:
            loader.start()
            assert await settle(root.fiber, 20) == []
            agent = await root.agents.create("a", preset="coder")
            scopes = [agent, root.agents["declared"]]

            async def told() -> set[str]:
                prompt = root.system_prompt
                return {render_prompt(await prompt.assemble(scope=one)) for one in scopes}

            async def save(text: str) -> Any:
                (tmp_path / "rule.py").write_text(text)
                changed = frozenset({tmp_path / "rule.py"})
                with anyio.fail_after(20):
                    return await reloader.reload(Batch(changed=changed))

            write = RULE.replace("\n    ", "\n").format
            assert await told() == {"P.\n\nOld."}
            await save(write(text="New."))
            assert await told() == {"P.\n\nNew."}
            (spoilt,) = await save("def apply(:")
            assert spoilt.error is not None
            assert await told() == {"P.\n\nNew."}
            (generation,) = root.presets.generations.in_use
            assert (generation.users, generation.failure) == (2, None)
        finally:
            stop()


async def test_the_services_leave_nothing_behind() -> None:
    """However their lives go: failures, disposals and cancellations at every await."""

    class Composed:
        """The presets and the agents as one plugin, with agents that use everything."""

        name = "composed"
        inject = ("system_prompt",)

        async def apply(self, ctx: Context) -> None:
            presets = {"p": {"persona": "P."}, "q": {"persona": "Q."}}
            await ctx.plugin(harness_plugins.presets, {"presets": presets})
            declared = {"top": {"preset": "p", "model": "m"}}
            await ctx.plugin(harness_plugins.agents, {"agents": declared})
            ctx.inject(["agents", "presets"], self.use)

        async def use(self, ctx: Context) -> None:
            one = await ctx.agents.create("one", preset="q", setup=self.furnish)
            two = await one.create("two")
            await two.reparent(None)
            await one.switch_preset("p")
            await two.open_session()
            await one.dispose()
            await find_presets(ctx).join("q")

        async def furnish(self, ctx: Context) -> None:
            await anyio.lowlevel.checkpoint()
            ctx.system_prompt.section("rule", "Rule.", order=1)
            await anyio.lowlevel.checkpoint()

    assert Presets.key == "presets"
    report = await check_plugin(Composed())
    assert report.ok, str(report)
    assert report.checkpoints > 5
