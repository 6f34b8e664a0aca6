"""`harness check`: every rule, one line each, and silence where nothing is wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from harness_core.cli.check_texts import _describe_invisible

from .conftest import Run

Write = Callable[..., None]

START = """
inject = ["system_prompt"]
def apply(ctx):
    sp = ctx.system_prompt
"""

RULES: dict[str, tuple[str, dict[str, Any]]] = {
    "unknown variable": (
        '    sp.variable("model", "m")\n    sp.section("a", "x {{modle}}", order=1)\n',
        {"rule": "unknown-variable", "where": "p.py:6", "plugin": "p", "says": "mean"},
    ),
    "valueless variable": (
        '    sp.variable("cwd", lambda: None)\n    sp.context("a", "{{cwd}}", order=1)\n',
        {"rule": "missing-variable", "where": "p.py:6", "says": '"{{cwd}}" has no value'},
    ),
    "malformed reference": (
        '    sp.section("a", "{{ model }}", order=1)\n',
        {"rule": "malformed-reference", "where": "p.py:5", "says": "{{ model }}"},
    ),
    "unknown variable in a file that was read": (
        ('    __import__("pathlib").Path("text.md").write_text("Rules\\n\\nof {{modle}}\\n")\n'
        '    sp.section("a", ctx.watch_file("text.md").partition("\\n")[2], order=1)\n'),
        {"rule": "unknown-variable", "where": "text.md:3:4", "plugin": "p", "says": "modle"},
    ),
    "duplicate tools": (
        '    sp.tools(lambda: [{"name": "t"}])\n    sp.tools(lambda: [{"name": "t"}])\n',
        {"rule": "duplicate-tool", "where": "p.py:6", "says": "from plugin \"p\" at p.py:5 and"},
    ),
    "order tie": (
        '    sp.section("a", "A", order=7)\n    sp.section("b", "B", order=7.0)\n',
        {"rule": "order-tie", "where": "p.py:6", "says": 'sections "a" of p and "b" of p'},
    ),
    "hidden tool in a text": (
        ('    from harness_core.prompt import ToolProviderResult\n'
        '    sp.tools(lambda: ToolProviderResult([], ["edit_file"]))\n'
        '    sp.section("a", "Call edit_file now.", order=1)\n'),
        {"rule": "hidden-tool", "where": "p.py:7", "says": "names the tool edit_file"},
    ),
    "hidden tool in a description": (
        ('    from harness_core.prompt import ToolProviderResult, ToolSchema\n'
        '    tools = [ToolSchema("read", "Use `edit-file` instead.")]\n'
        '    sp.tools(lambda: ToolProviderResult(tools, ["read", "edit-file"]))\n'),
        {"rule": "hidden-tool", "where": "p.py:7", "says": 'description of tool "read"'},
    ),
    "a tool without its section": (
        ('    from harness_core.prompt import ToolProviderResult, ToolSchema\n'
        '    sp.tools(lambda: ToolProviderResult([ToolSchema("run")]))\n'
        '    sp.section("how", "Run it.", order=1)\n    sp.pair("how", "run")\n'
        '    async def drop(assembly, context, next):\n'
        '        assembly = await next()\n        assembly.sections.clear()\n'
        '        return assembly\n    ctx.on("system-prompt/assemble", drop)\n'),
        {"rule": "broken-pair", "where": "p.py:7", "says": 'its tool "run" was left out too'},
    ),
    "a section without its tool": (
        ('    sp.tools(lambda: [{"name": "run"}])\n'
        '    sp.section("how", "Do it.", order=1)\n    sp.pair("how", "run")\n'
        '    async def drop(assembly, context, next):\n'
        '        assembly = await next()\n        assembly.tools.clear()\n'
        '        return assembly\n    ctx.on("system-prompt/assemble", drop)\n'),
        {"rule": "broken-pair", "where": "p.py:6", "says": 'its tool "run" is gone: dropped by'},
    ),
    "failed contribution": (
        '    sp.section("a", lambda: 1 / 0, order=1, optional=True)\n',
        {"rule": "failed-contribution", "where": "p.py:5", "says": "ZeroDivisionError"},
    ),
    "volatile text": (
        ('    import itertools\n    count = itertools.count()\n'
        '    sp.section("a", lambda: str(next(count)), order=1)\n'
        '    sp.section("b", "B", order=2)\n'),
        {"rule": "volatile", "where": "p.py:7", "says": 'stands before "b"'},
    ),
    "volatile variable": (
        ('    import itertools\n    count = itertools.count()\n'
        '    sp.variable("n", lambda: str(next(count)))\n    sp.section("a", "{{n}}", order=1)\n'
        '    sp.section("b", "B", order=2)\n'),
        {"rule": "volatile", "where": "p.py:8", "says": 'section "a" differs'},
    ),
    "volatile tools": (
        ('    import itertools\n    count = itertools.count()\n'
        '    sp.tools(lambda: [{"name": "t", "description": str(next(count))}])\n'),
        {"rule": "volatile", "where": "p.py:7", "says": "the tools differ"},
    ),
    "invisible characters": (
        '    sp.section("a", "so\\u00adft \\u200b and \\U000e0041", order=1)\n',
        {"rule": "invisible-characters", "where": "p.py:5",
         "says": "U+00AD at offset 2, U+200B at offset 6, U+E0041 at offset 12"},
    ),
    "failing assembly": (
        '    sp.section("a", lambda: 1 / 0, order=1)\n',
        {"rule": "assembly", "where": "p.py:5", "plugin": None, "says": "ZeroDivisionError"},
    ),
    "two complete sections": (
        ('    sp.section("a", "A", order=1, complete=True)\n'
        '    sp.section("b", "B", order=2, complete=True)\n'),
        {"rule": "assembly", "where": None, "plugin": None, "says": '"a", "b"'},
    ),
    "raising body": (
        '    raise ValueError("no")\n',
        {"rule": "plugin", "where": "harness.yaml:1:9", "says": "ValueError: no (p.py:5)"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", RULES)
def test_a_rule_finds_its_fault(write: Write, harness: Run, name: str) -> None:
    """Alone, with scope, plugin and place; the exit code is 1."""
    body, expected = RULES[name]
    write(manifest="- name: ./p.py\n", p=START + body)
    ended = harness("check", "harness.yaml", "--json", "--interval", "0")
    assert ended.code == 1
    (found,) = ended.data
    assert set(found) == {"rule", "scope", "plugin", "where", "message"}
    assert expected.pop("says") in found.pop("message")
    assert found == {"scope": "global", "plugin": "p", **expected}


SILENT = {
    "nothing": "    pass\n",
    "different orders": '    sp.section("a", "A", order=7)\n    sp.section("b", "B", order=8)\n',
    "a tie with nothing": '    sp.section("a", "A", order=7)\n    sp.section("b", "", order=7)\n',
    "a volatile text at the end": (
        '    import itertools\n    count = itertools.count()\n'
        '    sp.section("a", "A", order=1)\n'
        '    sp.section("b", lambda: str(next(count)), order=2)\n'
    ),
    "a volatile context": (
        '    import itertools\n    count = itertools.count()\n'
        '    sp.context("b", lambda: str(next(count)), order=2)\n'
    ),
    "a shown tool": (
        '    sp.tools(lambda: [{"name": "read"}])\n    sp.section("a", "Call `read`.", order=1)\n'
    ),
    "a part of a word": (
        '    from harness_core.prompt import ToolProviderResult\n'
        '    sp.tools(lambda: ToolProviderResult([], ["read"]))\n'
        '    sp.section("a", "You are ready to re-read and read-on, reader_s.", order=1)\n'
    ),
    "a word in data": (
        '    from harness_core.prompt import ToolProviderResult\n'
        '    sp.tools(lambda: ToolProviderResult([], ["read"]))\n'
        '    sp.section("a", "Please read this. {{ braces }}", order=1, literal=True)\n'
    ),
    "guidance for a tool that is called through another": (
        '    from harness_core.prompt import ToolProviderResult, ToolSchema\n'
        '    tools = [ToolSchema("run", "Calls `read`.")]\n'
        '    sp.tools(lambda: ToolProviderResult(tools, ["read", "run"], {"run": ["read"]}))\n'
        '    sp.section("a", "Call `read`.", order=1, requires_tools=("read",))\n'
    ),
    "a pair that is whole": (
        '    sp.tools(lambda: [{"name": "run"}])\n'
        '    sp.section("how", "Do it.", order=1)\n    sp.pair("how", "run")\n'
    ),
    "guidance that goes with its tool": (
        '    from harness_core.prompt import ToolProviderResult\n'
        '    sp.tools(lambda: ToolProviderResult([], ["read"]))\n'
        '    sp.section("a", "Call `read`.", order=1, requires_tools=("read",))\n'
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SILENT)
def test_what_is_right_is_not_reported(write: Write, harness: Run, name: str) -> None:
    """The exit code is 0."""
    write(manifest="- name: ./p.py\n", p=START + SILENT[name])
    ended = harness("check", "harness.yaml", "--json", "--interval", "0")
    assert (ended.code, ended.data) == (0, [])


ROWS = {
    "unknown plugin": ("- name: nobody\n", "plugin", "harness.yaml:1:9"),
    "bad config": ("- {name: persona, config: {txt: 1}}\n", "config", "harness.yaml:1:28"),
    "bad tool order": (
        "- {name: system_prompt, config: {tool_order: [a]}}\n", "tool-order", "harness.yaml:1:10",
    ),
    "unknown tool in the order": (
        "- {name: system_prompt, config: {tool_order: [a, <unlisted-tools>]}}\n",
        "tool-order", None,
    ),
    "waiting": ("- {name: workspace, inject: db}\n", "waiting", "harness.yaml:1:10"),
    "a faulty file": ("- nme: x\n", "manifest", "harness.yaml:1:3"),
}  # fmt: skip


@pytest.mark.parametrize("name", ROWS)
def test_faulty_rows_are_found(write: Write, harness: Run, name: str) -> None:
    """Also where nothing could be mounted at all: JSON is printed all the same."""
    manifest, rule, where = ROWS[name]
    write(manifest=manifest)
    ended = harness("check", "harness.yaml", "--json")
    assert ended.code == 1
    found = {(one["rule"], one["where"]) for one in ended.data}
    assert (rule, where) in found or (where is None and rule in {one for one, _ in found})


def test_a_preset_is_checked_through_the_agents_that_see_it(write: Write, harness: Run) -> None:
    """It is no agent itself, so what only an agent has is no fault of it."""
    write(
        manifest="""
        - name: presets
          config: {presets: {coder: {persona: You run on {{model}}.}}}
        - name: agents
          config: {agents: {main: {preset: coder, model: small-1}}}
        """.replace("You run on {{model}}.", '"You run on {{model}}."')
    )
    ended = harness("check", "harness.yaml", "--json")
    assert (ended.code, ended.data) == (0, [])
    assert list(harness("prompt", "harness.yaml", "--json").data["scopes"]) == ["global", "main"]


def test_what_all_agents_share_may_say_what_only_an_agent_has(write: Write, harness: Run) -> None:
    """`{{model}}` in a global section: each agent has one, and nobody asks the bare layer."""
    plugin = """
        inject = ["system_prompt"]
        def apply(ctx):
            ctx.system_prompt.section("runs", "You run on {{model}}.", order=5)
    """
    agents = "- name: ./p.py\n- name: agents\n  config: {{agents: {{{}}}}}\n"
    write(manifest=agents.format("one: {model: m-1}, two: {model: m-2}"), p=plugin)
    ended = harness("check", "harness.yaml", "--json")
    assert (ended.code, ended.data) == (0, [])
    ended = harness("prompt", "harness.yaml", "--json")
    assert (ended.code, list(ended.data["scopes"])) == (0, ["one", "two"])
    assert "You run on m-2." in ended.data["scopes"]["two"]["system"]
    assert "warning: left out: " in ended.err
    assert harness("prompt", "harness.yaml", "--json", "--agent", "global").code == 1

    write(manifest=agents.format("one: {model: m-1}, two: {}"), p=plugin)
    (found,) = harness("check", "harness.yaml", "--json").data
    assert (found["rule"], found["scope"]) == ("unknown-variable", "two")


def test_an_error_that_nobody_waits_for_is_found(write: Write, harness: Run) -> None:
    """It fails no fiber, so that only a report tells of it: in `check`, and as a warning."""
    listener = """
        def broken():
            raise RuntimeError("no such host")

        def apply(ctx):
            ctx.on("boot", broken)
            ctx.emit("boot")
    """
    write(manifest="- name: ./p.py", p=listener)
    (found,) = harness("check", "harness.yaml", "--json").data
    assert (found["rule"], found["plugin"], found["scope"]) == ("reported", "p", "global")
    assert "RuntimeError: no such host" in found["message"]
    outcome = harness("prompt", "harness.yaml")
    assert (outcome.code, outcome.err.count("warning:")) == (0, 1)
    assert "RuntimeError: no such host" in outcome.err


def test_every_scope_is_checked_and_an_inherited_fault_is_said_once(
    write: Write, harness: Run
) -> None:
    """In the outermost scope that shows it."""
    manifest = """
    - name: ./p.py
    - name: agents
      config:
        agents:
          a: {persona: "{{nobody}}"}
          b: {parent: a}
          c: {}
    """
    write(manifest=manifest, p=START + '    sp.section("s", "{{nowhere}}", order=5)\n')
    found = harness("check", "harness.yaml", "--json").data
    assert [(one["scope"], one["rule"]) for one in found] == [
        ("global", "unknown-variable"), ("a", "unknown-variable"),
    ]  # fmt: skip


def test_a_tool_of_one_agent_is_hidden_from_the_others(write: Write, harness: Run) -> None:
    """Guidance that stands where the tool does not is found, in that scope."""
    manifest = """
    - name: ./p.py
    - name: agents
      config:
        agents:
          worker: {plugins: [{name: './p.py:tool'}]}
          talker: {persona: "Call `run_it` when you are done."}
    """
    tool = """
def tool(ctx):
    ctx.system_prompt.tools(lambda: [{"name": "run_it"}])
tool.inject = ["system_prompt"]
"""
    write(manifest=manifest, p=START + "    pass\n" + tool)
    (found,) = harness("check", "harness.yaml", "--json").data
    assert (found["rule"], found["scope"], found["plugin"]) == ("hidden-tool", "talker", "agents")


CODE_MODE = """
- name: tools
- name: harness_plugins.code_mode
- name: ./p.py
- name: agents
  config:
    agents:
      coder: {plugins: [{name: './p.py:codes'}]}
      titler:
        parent: coder
        plugins: [{name: './p.py:only_a_title'}]
"""


def test_code_mode_and_what_breaks_it_are_told_apart(write: Write, harness: Run) -> None:
    """An agent whose complete section leaves no room for the signatures has no code either."""
    plugins = """
def apply(ctx):
    @ctx.tools.register()
    def read(path: str) -> str:
        "Read a file."
        return ""
    ctx.system_prompt.section("r", "Use `read`.", order=110, requires_tools=["read"])
inject = ["tools", "system_prompt"]

def codes(ctx):
    ctx.tools.present_as("code")
codes.inject = ["tools"]

def only_a_title(ctx):
    ctx.system_prompt.section("title", "Find a title.", order=0, complete=True)
only_a_title.inject = ["system_prompt"]
"""
    write(manifest=CODE_MODE, p=plugins)
    (found,) = harness("check", "harness.yaml", "--json", "--interval", "0").data
    assert (found["rule"], found["scope"], found["plugin"]) == (
        "broken-pair", "titler", "code_mode",
    )  # fmt: skip
    assert found["message"] == (
        'section "code_mode" was left out: replaced by complete section "title"; its tool '
        '"run_code" was left out too'
    )
    write(manifest=CODE_MODE.replace("- name: harness_plugins.code_mode\n", ""), p=plugins)
    found = harness("check", "harness.yaml", "--json", "--interval", "0").data
    assert [(one["rule"], one["scope"]) for one in found] == [
        ("assembly", "coder"), ("assembly", "titler"),
    ]  # fmt: skip
    assert 'presented as "code" by plugin "codes" at p.py:11' in found[0]["message"]
    assert 'mount the plugin "code_mode"' in found[0]["message"]


def test_people_get_one_line_a_fault_and_a_sum(write: Write, harness: Run) -> None:
    """With the place first, so that editors find it."""
    write(manifest="- name: ./p.py\n", p=START + '    sp.section("a", "{{x}} {{ y }}", order=1)\n')
    ended = harness("check", "harness.yaml")
    lines = ended.out.splitlines()
    assert ended.code == 1
    assert lines[0].startswith("p.py:5: unknown-variable (scope global, plugin p): unknown prompt")
    assert lines[1:] == ["1 fault in 1 scope"]
    write(manifest="[]\n")
    assert harness("check", "harness.yaml").out == "no fault in 1 scope\n"


def test_the_clock_is_given_time_to_move_on(write: Write, harness: Run) -> None:
    """A text that changes every second is found, since the assemblies lie a second apart."""
    body = '    import time\n    sp.section("a", lambda: str(int(time.monotonic())), order=1)\n'
    write(manifest="- name: ./p.py\n", p=START + body + '    sp.section("b", "B", order=2)\n')
    (found,) = harness("check", "harness.yaml", "--json").data
    assert found["rule"] == "volatile"


@pytest.mark.parametrize(
    "text", ["👩\u200d💻", "\u0645\u06cc\u200c\u062e\u0648", "plain", "tab\tand\nline", "❤\ufe0f"]
)
def test_characters_that_join_what_they_are_written_for_are_fine(text: str) -> None:
    """Families of emoji, and scripts that need joiners."""
    assert _describe_invisible(text) == ""


def test_many_invisible_characters_are_counted() -> None:
    """The first five are named."""
    said = _describe_invisible("x\u200d" * 12)
    assert said.startswith("U+200D at offset 1, ")
    assert said.endswith(" and 7 more")
