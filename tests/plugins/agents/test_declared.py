"""Agents that the manifest declares: their variables, filters, presets, depth and limits."""

from __future__ import annotations

from pathlib import Path

import pytest
from harness_plugins.agents.api import AgentError, Limits

from harness_core import Context, Fiber, scope_chain_of
from harness_core.errors import ConfigError
from harness_core.loader import Loader
from tests.loader.harness import running

from .tree import told, tools_of, tree

pytestmark = pytest.mark.asyncio

QUIET = "- {name: system_prompt, config: {include_harness_identity: false}}\n"

TOOLS = """
    from harness_plugins.tools.api import Tool

    inject = ["tools"]
    EMPTY = {"type": "object", "properties": {}}

    def apply(ctx, config):
        for name in config["names"]:
            ctx.tools.register(Tool(name, name, EMPTY, run=lambda _: "ok"))
"""


def row(loader: Loader, one: str) -> Fiber:
    return next(row.fiber for row in loader.mounted.values() if row.entry.id == one)


async def test_settings_of_a_declared_agent(tmp_path: Path) -> None:
    """Those of `create`, in the manifest."""
    manifest = (
        QUIET
        + """
- name: agents
  config:
    agents:
      a:
        model: m-1
        provider: p
        cwd: /srv
        limits: {max_steps: 3}
        persona: You are {{model}}.
      b: {parent: a, model: m-2}
"""
    )
    async with running(tmp_path, manifest=manifest) as (root, _):
        a, b = root.get("agents")["a"], root.get("agents")["b"]
        assert (a.model, a.provider, a.cwd) == ("m-1", "p", "/srv")
        assert a.limits == b.limits == Limits(max_steps=3)
        assert await told(root, a) == "You are m-1."
        assert await told(root, b) == "You are m-2."
        assert a.children == (b,)
        await a.dispose()
        assert not b.is_live


@pytest.mark.parametrize("is_late", [False, True])
async def test_a_filter_holds_whenever_the_tools_come(tmp_path: Path, is_late: bool) -> None:
    """Row order never matters, and nothing slips through meanwhile."""
    rows = [
        """
- name: agents
  config:
    agents:
      some: {tools: [bash, read]}
      rest: {tools: {deny: [bash]}}
      none: {tools: []}
""",
        "- name: tools\n",
        "- {id: one, name: ./tools_.py, config: {names: [bash, edit]}}\n",
        "- {id: two, name: ./tools_.py, config: {names: [read, write]}}\n",
    ]
    manifest = QUIET + "".join(reversed(rows) if is_late else rows)
    async with running(tmp_path, tools_=TOOLS, manifest=manifest) as (root, loader):
        agents = root.get("agents")
        for _ in range(2):
            assert await tools_of(root, agents["some"]) == ["bash", "read"]
            assert await tools_of(root, agents["rest"]) == ["edit", "read", "write"]
            assert await tools_of(root, agents["none"]) == []
            for one in ("tools", "one"):
                await row(loader, one).restart()


async def test_a_name_that_nobody_registers_fails_the_assembly(tmp_path: Path) -> None:
    """It is never a silent hole; what is known is filtered all the same; others go on."""
    manifest = (
        QUIET
        + """
- name: tools
- name: agents
  config:
    agents:
      some: {tools: [bash, reed]}
      rest: {tools: {deny: [edit]}}
      plain:
- {id: one, name: ./tools_.py, config: {names: [bash, read]}}
"""
    )
    async with running(tmp_path, tools_=TOOLS, manifest=manifest) as (root, loader):
        agents = root.get("agents")
        with pytest.raises(AgentError) as caught:
            await told(root, agents["some"])
        assert 'agent "some": tools names reed, which nobody registers; did you mean read' in str(
            caught.value
        )
        assert list(root.get("tools").visible(agents["some"])) == ["bash"]
        with pytest.raises(AgentError, match="tools names edit"):
            await told(root, agents["rest"])
        assert await tools_of(root, agents["plain"]) == ["bash", "read"]
        await row(loader, "one").update({"names": ["bash", "reed", "edit", "read"]})
        assert await tools_of(root, agents["some"]) == ["bash", "reed"]
        assert await tools_of(root, agents["rest"]) == ["bash", "read", "reed"]


async def test_a_filter_without_tools_fails_the_assembly(tmp_path: Path) -> None:
    """Whoever writes one means to have tools."""
    manifest = QUIET + "- {name: agents, config: {agents: {a: {tools: [bash]}}}}\n"
    async with running(tmp_path, manifest=manifest) as (root, _):
        with pytest.raises(AgentError, match=r"known tools: \(none\)"):
            await told(root, root.get("agents")["a"])


@pytest.mark.parametrize("is_late", [False, True])
async def test_declared_agents_join_presets(tmp_path: Path, is_late: bool) -> None:
    """Wherever the row stands; they and those below them come and go with the presets."""
    rows = [
        """
- name: agents
  config:
    agents:
      below: {parent: top}
      top: {preset: coder}
      plain: {persona: Plain.}
""",
        "- {name: presets, config: {presets: {coder: {persona: You write code.}}}}\n",
    ]
    manifest = QUIET + "".join(reversed(rows) if is_late else rows)
    async with running(tmp_path, manifest=manifest) as (root, loader):
        agents = root.get("agents")
        assert list(agents) == ["below", "top", "plain"]
        assert await told(root, agents["below"]) == "You write code."
        assert [str(key) for key in scope_chain_of(agents["below"])] == [
            "below", "top", "preset coder",
        ]  # fmt: skip
        (section,) = [
            one
            for one in (await root.system_prompt.assemble(scope=agents["plain"])).sections
            if one.text
        ]
        assert section.origin is not None
        assert section.origin.plugin == "agents"
        await row(loader, "presets").restart()
        assert await told(root, root.get("agents")["below"]) == "You write code."
        await row(loader, "presets").dispose()
        assert list(root.get("agents")) == ["plain"]


async def test_an_unknown_preset_is_a_fault_that_disturbs_nobody_else(tmp_path: Path) -> None:
    """It is found once there are presets."""
    manifest = (
        QUIET
        + """
- name: presets
- {name: agents, config: {agents: {a: {preset: codr}, b: {persona: B.}}}}
"""
    )
    async with running(tmp_path, manifest=manifest) as (root, loader):
        (child,) = [one for one in row(loader, "agents").children if one.name == "agents"]
        assert 'there is no preset "codr"' in str(child.error)
        assert list(root.get("agents")) == ["b"]


FAULTS = {
    "too deep": (
        {"max_depth": 1, "agents": {"a": None, "b": {"parent": "a"}, "c": {"parent": "b"}}},
        "agents.c.parent: depth 2, and the greatest is 1",
    ),
    "a depth below nothing": ({"max_depth": -1}, "max_depth: expected 0 or more, got -1"),
    "a filter that is none": (
        {"agents": {"a": {"tools": {"alow": []}}}}, 'agents.a.tools: unknown key "alow", did you',
    ),
    "a name in a filter that is none": (
        {"agents": {"a": {"tools": {"deny": [1]}}}}, "agents.a.tools.deny: expected tool names",
    ),
    "limits that are none": (
        {"agents": {"a": {"limits": {"max_steps": 0}}}}, "agents['a'].limits",
    ),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_faulty_setting_is_an_error_at_its_path(fault: str) -> None:
    """And nothing is created."""
    config, said = FAULTS[fault]
    with pytest.raises(ConfigError) as caught:
        async with tree(**config):  # type: ignore[arg-type]
            pass
    assert said in str(caught.value)


async def test_plugins_of_an_agent_need_a_loader() -> None:
    """Everything else works without one."""
    with pytest.raises(AgentError, match="its plugins need a loader"):
        async with tree(agents={"a": {"plugins": [{"name": "./rule.py"}]}}):
            pass


async def test_a_deployment_of_agents_is_checked_whole(tmp_path: Path) -> None:
    """A rule for all of them, seen by each."""
    manifest = QUIET + "- {name: agents, config: {agents: {a: {persona: A.}, b: {parent: a}}}}\n"
    async with running(tmp_path, manifest=manifest) as (root, _):

        def everywhere(ctx: Context) -> None:
            ctx.system_prompt.section("all", "For all.", order=5)

        everywhere.inject = ["system_prompt"]  # type: ignore[attr-defined]
        await root.plugin(everywhere)
        for name in ("a", "b"):
            assert await told(root, root.get("agents")[name]) == "A.\n\nFor all."
