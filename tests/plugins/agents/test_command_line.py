"""Declared agents on the command line: what `harness prompt` and `harness tree` say of them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.loader.harness import write_files

MANIFEST = """
- {name: system_prompt, config: {include_harness_identity: false}}
- name: tools
- name: agents
  config:
    agents:
      below: {parent: top, persona: You help., tools: []}
      top: {preset: coder, model: m-1, delegate: true}
- name: presets
  config:
    presets:
      coder: {persona: "You write code with {{model}}.", plugins: [{name: ./rule.py}]}
"""

RULE = """
inject = ["system_prompt"]

def apply(ctx):
    ctx.system_prompt.section("rule", "Test it.", order=10)
"""


def harness(directory: Path, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "harness_core.cli", *arguments],
        cwd=directory,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_request_of_an_agent_with_a_preset(tmp_path: Path) -> None:
    """Its own, its parent's and its preset's contributions, and its tools."""
    write_files(tmp_path, manifest=MANIFEST, rule=RULE)
    expected = {
        "top": ("You write code with m-1.\n\nTest it.", ["delegate"]),
        "below": ("You help.\n\nTest it.", []),
    }
    for name, (system, tools) in expected.items():
        said = json.loads(harness(tmp_path, "prompt", "harness.yaml", "--agent", name, "--json"))
        assert said["scopes"][name]["system"] == system
        assert [tool["name"] for tool in said["scopes"][name]["tools"]] == tools
        texts = {one["name"]: one["plugin"] for one in said["scopes"][name]["explain"]}
        assert texts["rule"] == "rule"


def test_the_tree_shows_agents_and_the_preset_they_have_joined(tmp_path: Path) -> None:
    """Whose scope each fiber is, and who goes with whom."""
    write_files(tmp_path, manifest=MANIFEST, rule=RULE)
    tree = harness(tmp_path, "tree", "harness.yaml")
    for part in ("scope top", "scope below", "scope preset coder", 'sub-agent "below"'):
        assert part in tree
