"""`harness tree`: fibers, states, effects."""

from __future__ import annotations

from collections.abc import Callable

from .conftest import Run

Write = Callable[..., None]


def test_fibers_states_effects_and_places(write: Write, harness: Run) -> None:
    """Also what waits, with what it waits for, and the scopes of agents."""
    manifest = """
    - id: rules
      name: ./p.py
    - {id: late, name: './p.py:late'}
    - {name: agents, config: {agents: {main: {persona: Hi.}}}}
    """
    code = """
inject = ["system_prompt"]
def apply(ctx):
    ctx.system_prompt.section("rules", "Be kind.", order=1)

def late(ctx):
    pass
late.inject = ["database"]
"""
    write(manifest=manifest, p=code)
    ended = harness("tree", "harness.yaml")
    assert ended.code == 0
    assert 'p active  row "rules"' in ended.out
    assert 'section "rules"  p.py:4' in ended.out
    assert "late pending  waits for database" in ended.out
    assert "scope main" in ended.out
    assert 'warning: harness.yaml:4:20: row "late" waits' in ended.err


def test_a_failed_fiber_is_shown_and_reported(write: Write, harness: Run) -> None:
    """The exit code is 1."""
    write(manifest="- name: ./p.py\n", p="def apply(ctx):\n    raise ValueError('no')\n")
    ended = harness("tree", "harness.yaml")
    assert ended.code == 1
    assert 'p failed  row "./p.py"  no' in ended.out
    assert "error: harness.yaml:1:9: " in ended.err
