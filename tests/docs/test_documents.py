"""Every block of code in the README and the docs runs, and prints what it says it prints."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import attrs
import pytest

ROOT = Path(__file__).resolve().parents[2]
_BLOCK = re.compile(r"^```(?P<info>[^\n]*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
_RUNS = {"python", "python test", "console"}
_READS = {"text", "yaml", "toml", ""}
"""Blocks that are no code: output, and files that a block of the same page uses."""


@attrs.frozen
class Block:
    """One fenced block of a page."""

    page: Path
    line: int
    info: str
    text: str
    output: str | None

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def _pages() -> list[Path]:
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def _blocks(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    found = list(_BLOCK.finditer(text))
    blocks: list[Block] = []
    for match, after in zip(found, [*found[1:], None][: len(found)], strict=True):
        output = None
        if after is not None and after["info"].strip() == "text":
            between = text[match.end() : after.start()]
            output = after["text"] if not between.strip() else None
        line = text.count("\n", 0, match.start()) + 1
        blocks.append(Block(page, line, match["info"].strip(), match["text"], output))
    return blocks


BLOCKS = [block for page in _pages() for block in _blocks(page)]


def _with(info: str) -> list[Block]:
    return [block for block in BLOCKS if block.info == info]


def test_there_is_no_kind_of_block_that_nobody_runs() -> None:
    """A block is run, or it is output or a file; anything else would rot unseen."""
    unknown = [str(block) for block in BLOCKS if block.info not in _RUNS | _READS]
    assert not unknown
    assert _with("python")


@pytest.mark.parametrize("block", _with("python"), ids=str)
def test_a_python_block_runs(block: Block, tmp_path: Path) -> None:
    """It runs by itself, without a warning, and prints what the text block behind it shows."""
    program = tmp_path / "block.py"
    program.write_text(block.text, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-W", "error", str(program)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, f"{block}\n{done.stderr}"
    if block.output is not None:
        assert done.stdout.strip() == block.output.strip(), block


@pytest.mark.parametrize("block", _with("python test"), ids=str)
def test_a_block_of_tests_passes(block: Block, tmp_path: Path) -> None:
    """It is collected and passes under pytest."""
    (tmp_path / "test_block.py").write_text(block.text, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, f"{block}\n{done.stdout}{done.stderr}"


@pytest.mark.parametrize("block", _with("console"), ids=str)
def test_a_command_exists(block: Block) -> None:
    """`harness` commands run from the project's root; `make` targets are there."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for line in block.text.splitlines():
        words = shlex.split(line.removeprefix("$ "), comments=True)
        if not words:
            continue
        if words[0] == "make":
            assert re.search(rf"^{re.escape(words[1])}:", makefile, re.MULTILINE), line
        elif words[0] == "harness":
            _run_harness(words[1:], line)
        else:
            assert words[0] in ("git", "cd", "pip"), f"{block}: nobody checks {line!r}"


def _run_harness(arguments: list[str], line: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "harness_core.cli", *arguments],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"


@pytest.mark.parametrize("page", _pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    """A relative link names a file that exists."""
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text(encoding="utf-8")):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name}: {target}"
