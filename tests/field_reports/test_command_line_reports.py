"""Reports about prompts that nobody could look at: what `harness prompt` shows, `check` finds."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness_core.cli import main

PLUGIN = """\
from harness_core.prompt import AssembledSection, ToolSchema

inject = ["system_prompt"]

def apply(ctx):
    sp = ctx.system_prompt
"""

HERE = "- {name: ./p.py, inject: [tools]}\n- name: tools\n- name: agents\n"
NARROW = "  config: {agents: {wide: {}, narrow: {tools: [read]}}}\n"
TOOLS = """
from harness_plugins.tools.api import Tool
for name, about in (("read", "Better than grep."), ("grep", "Search."), ("glob", "List.")):
    ctx.tools.register(Tool(name, about, {"type": "object"}, run=lambda _: ""))
"""

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Run:
    """`run(body, "check", manifest=...)` writes p.py with this body, and runs the command."""
    monkeypatch.chdir(tmp_path)

    def run(body: str, *arguments: str, manifest: str = "- name: ./p.py\n") -> tuple[int, str, str]:
        (tmp_path / "p.py").write_text(PLUGIN + textwrap.indent(textwrap.dedent(body), "    "))
        (tmp_path / "harness.yaml").write_text(manifest)
        command, *rest = arguments
        capfd.readouterr()
        with pytest.raises(SystemExit) as ended:
            main([command, "harness.yaml", *rest])
        out, err = capfd.readouterr()
        return int(ended.value.code or 0), out, err

    return run


def found(run: Run, body: str, rule: str, **options: str) -> list[dict[str, Any]]:
    """Return what `harness check` finds by a rule; it must find this and nothing else."""
    code, out, _ = run(body, "check", "--json", "--interval", "0.01", **options)
    findings: list[dict[str, Any]] = json.loads(out)
    assert {one["rule"] for one in findings} == {rule}
    assert code == 1
    return findings


CHECKS: dict[str, tuple[str, str, dict[str, str], list[tuple[str, str, str]]]] = {
    "Aik358/dsh-auto-memory#1": (
        """
        import itertools
        ticks = itertools.count()
        sp.section("clock", lambda: f"10:00:{next(ticks):02}", order=1)
        sp.section("rules", "Be good.", order=2)
        """,
        "volatile",
        {},
        [("global", "p", 'section "clock" differs between two assemblies and stands before')],
    ),
    "anomalyco/opencode#14492": (
        """
        sp.section("a", "A", order=10)
        sp.section("b", "B", order=10)
        """,
        "order-tie",
        {},
        [("global", "p", 'sections "a" of p and "b" of p have the same order 10')],
    ),
    "github/copilot-cli#4596, google-gemini/gemini-cli#13597": (
        TOOLS.replace("Better than grep.", "Read.")
        + """
for order, name in enumerate(("grep", "glob", "read"), 100):
    sp.section(f"use {name}", f"Prefer {name}.", order=order)
""",
        "hidden-tool",
        {"manifest": HERE + NARROW},
        [
            ("narrow", "p", 'section "use grep" names the tool grep'),
            ("narrow", "p", 'section "use glob" names the tool glob'),
        ],
    ),
    "langchain-ai/deepagents#4914": (
        TOOLS,
        "hidden-tool",
        {"manifest": HERE + NARROW},
        [("narrow", "p", 'the description of tool "read" names grep, which is hidden here')],
    ),
    "yjh051108/dsh-routing-suite#63": (
        TOOLS.replace("Better than grep.", "Read.")
        + 'sp.context("phase", "Call read, then glob.", order=1)',
        "hidden-tool",
        {"manifest": HERE + NARROW},
        [("narrow", "p", 'context "phase" names the tool glob, which is hidden here')],
    ),
    "msitarzewski/agency-agents#478": (
        r"""
        sp.section("a", "Be\u00ad good\u200b.\U000e0041", order=1)
        sp.section("b", "\U0001f468\u200d\U0001f469\u200d\U0001f467 \u2764\ufe0f", order=2)
        """,
        "invisible-characters",
        {},
        [("global", "p", "U+00AD at offset 2, U+200B at offset 8, U+E0041 at offset 10")],
    ),
    "tetsuo-ai/agenc-core#1235": (
        r"""
        sp.tools(lambda: [ToolSchema("t", "Reads.\U000e0041\U000e0042")])
        """,
        "invisible-characters",
        {},
        [("global", "p", 'tool "t" holds invisible characters: U+E0041')],
    ),
    "deepset-ai/haystack#8903": (
        """
        sp.variable("doc", "x")
        sp.section("rag", "Docs: {{docs}}", order=1)
        """,
        "unknown-variable",
        {},
        [("global", "p", 'unknown prompt variable "{{docs}}" in section "rag"')],
    ),
    "px0-ai/px0#8": (
        """
        sp.variable("v", lambda: None)
        sp.section("s", "is {{v}}", order=1)
        """,
        "missing-variable",
        {},
        [("global", "p", '"{{v}}" has no value for this assembly (section "s")')],
    ),
    "anywhere-labs/dsh-desktop#729": (
        "",
        "waiting",
        {"manifest": "- {name: ./p.py, inject: [removed]}\n"},
        [("global", "p", "removed")],
    ),
    "openclaw/openclaw#118537, NousResearch/hermes-agent#81986": (
        """
        sp.context("queue", lambda: 1 / 0, order=1, optional=True)
        """,
        "failed-contribution",
        {},
        [("global", "p", 'context "queue" was left out: ZeroDivisionError')],
    ),
}


@pytest.mark.parametrize("report", CHECKS)
def test_what_went_wrong_for_others_is_found_before_a_model_is_asked(run: Run, report: str) -> None:
    """By its own rule, with scope and plugin, and once."""
    body, rule, options, expected = CHECKS[report]
    findings = found(run, body, rule, **options)
    assert len(findings) == len(expected)
    for finding, (scope, plugin, message) in zip(findings, expected, strict=True):
        assert (finding["scope"], finding["plugin"]) == (scope, plugin)
        assert message in finding["message"]


def test_a_duplicate_tool_is_found_with_both_who_offer_it(run: Run, tmp_path: Path) -> None:
    """Kind: duplicate_tools."""
    (tmp_path / "linear.py").write_text(
        'inject = ["system_prompt"]\ndef apply(ctx):\n'
        '    ctx.system_prompt.tools(lambda: [{"name": "create_issue"}])\n'
    )
    body = 'sp.tools(lambda: [{"name": "create_issue"}])'
    manifest = "- {id: github, name: ./p.py}\n- {id: linear, name: ./linear.py}\n"
    (finding,) = found(run, body, "duplicate-tool", manifest=manifest)
    assert "create_issue" in finding["message"]
    assert "p.py:7" in finding["message"] + finding["where"]
    assert "linear.py:3" in finding["message"] + finding["where"]


LOOKED_AT = """
sp.section("rules", "You are {{model}}. " + "Be good. " * 4, order=7)
sp.section("gone", "Never seen.", order=8, requires_tools=["no_such_tool"])
sp.context("memory", "milk", order=1)
sp.context("secret", "hush", order=2)
sp.tools(lambda: [ToolSchema("t", "Does t.")])
"""
WITH_AGENT = "- name: ./p.py\n- name: agents\n  config: {agents: {a: {model: m-1}}}\n"


def test_the_whole_request_of_any_agent_can_be_dumped_offline(run: Run) -> None:
    """Reports typeclaw/typeclaw#217, anomalyco/opencode#14674: values filled in, as JSON too."""
    code, out, err = run(LOOKED_AT, "prompt", "--json", "--agent", "a", manifest=WITH_AGENT)
    assert (code, err) == (0, "")
    scope = json.loads(out)["scopes"]["a"]
    assert "You are m-1. Be good." in scope["system"]
    assert scope["snapshot"].endswith("\n\nmilk\n\nhush")
    assert [one["name"] for one in scope["tools"]] == ["t"]
    told = {(one["kind"], one["name"]): one for one in scope["explain"]}
    rules = told["section", "rules"]
    assert (rules["plugin"], rules["scope"], rules["order"]) == ("p", "global", 7)
    assert (rules["file"], rules["line"]) == ("p.py", 8)
    assert told["section", "gone"]["status"] == "tool-hidden"
    assert told["tool", "t"]["plugin"] == "p"
    assert told["variable", "model"]["scope"] == "a"
    code, raw, _ = run(LOOKED_AT, "prompt", "--raw", "--agent", "a", manifest=WITH_AGENT)
    assert code == 0
    assert scope["system"] in raw


def test_each_part_is_shown_with_its_size_and_its_plugin(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reports gptme/gptme#2842, tmustier/pine-of-glass#9: the sizes are those of the parts."""
    monkeypatch.setenv("COLUMNS", "100")
    _, out, _ = run(LOOKED_AT, "prompt", "--agent", "a", manifest=WITH_AGENT)
    (rules,) = [line for line in out.splitlines() if line.startswith("● rules")]
    assert "p · global · order 7" in rules
    (memory,) = [line for line in out.splitlines() if line.startswith("● memory")]
    sizes = [
        int(found) for line in (rules, memory) for found in re.findall(r"(\d+) tokens?$", line)
    ]
    assert len(sizes) == 2
    assert sizes[0] > 5 * sizes[1] > 0


def test_a_context_that_is_not_there_says_who_took_it_away(run: Run) -> None:
    """Report modusensus/dsh-mneme#175."""
    body = LOOKED_AT + 'sp.suppress_runtime_context("secret")\n'
    _, out, _ = run(body, "prompt", "--json", "--agent", "a", manifest=WITH_AGENT)
    scope = json.loads(out)["scopes"]["a"]
    (secret,) = [one for one in scope["explain"] if one["name"] == "secret"]
    assert secret["status"] == "suppressed"
    assert 'plugin "p"' in secret["reason"]
    assert secret["seconds"] is None
    assert "hush" not in scope["snapshot"]


def test_a_broken_row_can_be_left_out(run: Run) -> None:
    """Report anywhere-labs/dsh-desktop#729: safe mode."""
    manifest = "- {id: bad, name: ./none.py}\n- {id: good, name: ./p.py}\n"
    body = 'sp.section("s", "It works.", order=1)'
    code, _, err = run(body, "prompt", manifest=manifest)
    assert code == 1
    assert "harness.yaml:1" in err
    code, out, err = run(body, "prompt", "--raw", "--disable", "bad", manifest=manifest)
    assert (code, err) == (0, "")
    assert "It works." in out


def test_what_a_cache_can_reuse_is_shown(run: Run, tmp_path: Path) -> None:
    """Report pydantic/pydantic-ai#3630."""
    body = 'sp.section("static", "static text", order=1)\nsp.section("user", "{}", order=100)'
    _, out, _ = run(body.format("ann"), "prompt", "--json")
    (tmp_path / "before.json").write_text(out)
    code, out, _ = run(body.format("bob"), "prompt", "--diff", "before.json")
    assert code == 0
    changed = [line.strip() for line in out.splitlines() if line.strip()[:1] in ("+", "-")][2:]
    assert changed == ["-ann", "+bob"]
    same = len("You are an AI agent powered by DeepSeek Harness.\n\nstatic text\n\n")
    assert f"the first {same} of " in out
