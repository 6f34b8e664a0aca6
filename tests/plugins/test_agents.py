"""`agents`: named scopes with parents, personas and plugins of their own."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness_core import Context, scope_chain_of
from harness_core.prompt import render_prompt
from tests.loader.harness import running

pytestmark = pytest.mark.asyncio

QUIET = "- {name: system_prompt, config: {include_harness_identity: false, persona: Deployed.}}\n"

RULE = """
    def apply(ctx, config):
        ctx.system_prompt.section("rule", config["text"], order=10)

    inject = ["system_prompt"]
"""


def manifest(agents: str) -> str:
    return QUIET + "- name: agents\n  config:\n    agents:\n" + agents


async def prompt_of(root: Context, name: str | None) -> str:
    scope = root.get("agents")[name] if name is not None else None
    return render_prompt(await root.system_prompt.assemble(scope=scope))


async def test_agents_nest_in_any_order(tmp_path: Path) -> None:
    """A child sees what its parent sees; what it has itself wins."""
    rows = """
      reviewer:
        parent: maintainer
        persona: Review.
      intern: {parent: reviewer}
      maintainer:
        persona: Maintain.
        plugins:
          - {id: r, name: ./rule.py, config: {text: Be kind.}}
"""
    async with running(tmp_path, rule=RULE, manifest=manifest(rows)) as (root, _):
        agents = root.get("agents")
        assert list(agents) == ["reviewer", "intern", "maintainer"]
        chain = scope_chain_of(agents["intern"])
        assert [agent.name for agent in chain] == ["intern", "reviewer", "maintainer"]
        assert agents["reviewer"].parent is agents["maintainer"]
        assert await prompt_of(root, None) == "Deployed."
        assert await prompt_of(root, "maintainer") == "Maintain.\n\nBe kind."
        assert await prompt_of(root, "reviewer") == "Review.\n\nBe kind."
        assert await prompt_of(root, "intern") == "Review.\n\nBe kind."


async def test_an_agent_is_found_by_name(tmp_path: Path) -> None:
    """The service looks up; a name that nobody has is told with what is near."""
    async with running(tmp_path, manifest=manifest("      reviewer:\n")) as (root, _):
        agents = root.get("agents")
        assert repr(agents["reviewer"]) == 'Agent("reviewer")'
        assert agents.get("nobody") is None
        assert "reviewer" in agents
        assert len(agents) == 1
        with pytest.raises(LookupError, match='did you mean "reviewer"'):
            agents["reviewr"]


FAULTS = {
    "an unknown parent": (
        "      a: {parent: bb}\n      b: {}\n",
        ["agents.a.parent: there is no agent"], (5, 19),
    ),
    "its own parent": ("      a: {parent: a}\n", ["a circle of parents: a → a"], (5, 19)),
    "a circle": (
        "      a: {parent: b}\n      b: {parent: c}\n      c: {parent: a}\n",
        ["a → b → c → a", "b → c → a → b", "c → a → b → c"], (5, 19),
    ),
    "the name of the global layer": (
        "      global: {}\n", ["an agent cannot be called 'global'"], (5, 15),
    ),
    "an unknown setting": ("      a: {persna: x}\n", ["did you mean 'persona'?"], (5, 11)),
    "a persona that is no text": ("      a: {persona: 5}\n", ["expected str, got 5"], (5, 20)),
    "plugins that are no list": ("      a: {plugins: {}}\n", ["expected a list"], (5, 20)),
    "a row that is none": (
        "      a:\n        plugins:\n          - ./rule.py\n", ["expected a row"], (7, 13),
    ),
    "a row with an unknown key": (
        "      a:\n        plugins:\n          - {name: ./rule.py, cfg: 1}\n",
        ['unknown key "cfg"'], (7, 31),
    ),
    "a plugin that does not exist": (
        ("      a:\n        plugins:\n          - name: persona\n            config: {text: x}\n"
        "          - name: ./rul.py\n"), ['did you mean "./rule.py"'], (9, 19),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
async def test_a_faulty_agent_is_an_error_at_its_place(tmp_path: Path, name: str) -> None:
    """Nothing of the others stays either."""
    rows, said, place = FAULTS[name]
    async with running(tmp_path, rule=RULE, manifest=manifest(rows)) as (root, loader):
        (fault,) = [row.fault for row in loader.mounted.values() if row.fault is not None]
        for part in said:
            assert part in fault.message
        assert (fault.line, fault.column) == place
        assert root.get("agents") is None
        assert await prompt_of(root, None) == "Deployed."


async def test_a_failing_plugin_of_an_agent_fails_alone(tmp_path: Path) -> None:
    """Its place is its row's; the agent lives."""
    rows = "      a:\n        persona: A.\n        plugins: [{name: ./rule.py, config: {txt: x}}]\n"
    async with running(tmp_path, rule=RULE, manifest=manifest(rows)) as (root, loader):
        (fault,) = [row.fault for row in loader.mounted.values() if row.fault is not None]
        assert (fault.line, fault.column) == (7, 26)
        assert "KeyError: 'text'" in fault.message
        assert await prompt_of(root, "a") == "A."


async def test_nothing_of_the_agents_stays(tmp_path: Path) -> None:
    """Law L2: scopes, rows, services."""
    rows = "      a:\n        plugins: [{name: ./rule.py, config: {text: x}}]\n"
    async with running(tmp_path, rule=RULE, manifest=manifest(rows)) as (root, loader):
        (fiber,) = [row.fiber for row in loader.mounted.values() if row.entry.id == "agents"]
        agent = root.get("agents")["a"]
        await fiber.restart()
        again = root.get("agents")["a"]
        assert again is not agent
        await fiber.dispose()
        assert root.get("agents") is None
        assert [row.entry.id for row in loader.mounted.values()] == ["system_prompt"]
        assembly = await root.system_prompt.assemble(scope=again)
        assert render_prompt(assembly) == "Deployed."
