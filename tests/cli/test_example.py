"""The example over this repository: what `make demo` prints."""

from __future__ import annotations

import re
from pathlib import Path

from .conftest import ROOT, Run

EXAMPLE = "examples/repository/harness.yaml"


def test_the_demo_shows_two_nested_agents(process: Run, tmp_path: Path) -> None:
    """In a home without any git configuration, with nothing of this machine in it."""
    ended = process("prompt", EXAMPLE, HOME=str(tmp_path), XDG_CONFIG_HOME=str(tmp_path))
    assert (ended.code, ended.err) == (0, "")
    assert max(map(len, ended.out.splitlines())) <= 100
    assert str(ROOT) not in ended.out
    maintainer, reviewer = re.split(r"^ reviewer ", ended.out, flags=re.MULTILINE)
    assert "\n maintainer " in maintainer
    for part in ("System prompt", "Runtime context", "Tools"):
        assert part in maintainer
        assert part in reviewer
    assert "● guidance:editing  editing · maintainer · order 120" in maintainer
    assert "● edit_file(path, old, new)" in maintainer
    assert "replaces that of agents · maintainer" in reviewer
    assert "○ guidance:editing" in reviewer
    assert "○ git " in reviewer
    assert "○ edit_file" in reviewer


def test_the_example_has_no_faults(process: Run) -> None:
    """`harness check` has nothing to say."""
    ended = process("check", EXAMPLE)
    assert (ended.code, ended.out) == (0, "no fault in 3 scopes\n")


def test_the_picture_in_the_docs_is_of_this_example() -> None:
    """It names no machine and no foreign host, and shows both agents."""
    svg = (ROOT / "docs" / "demo.svg").read_text()
    assert "https://" not in svg
    assert "/home/" not in svg
    for word in ("maintainer", "reviewer", "guidance:editing"):
        assert word in svg
