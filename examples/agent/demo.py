"""A chat with a save in the middle, typed by a program: what `make demo` shows.

A writer looks at its pages, and asks a reviewer, a sub-agent that lives as long as the task. Then
the house style is changed and saved. The next prompt of both has the new rule, the reviewer comes
to another answer, and nothing was started again.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).parent
PROGRAM = "import sys; from harness_core.cli import main; main(sys.argv[1:])"


def main() -> int:
    """Run the chat in a copy of this directory; return its exit code."""
    with tempfile.TemporaryDirectory() as place:
        ignored = shutil.ignore_patterns(".*", "__pycache__")
        copy = Path(shutil.copytree(HERE, Path(place) / "agent", ignore=ignored))
        with subprocess.Popen(
            [sys.executable, "-c", PROGRAM, "chat", "harness.yaml"],
            cwd=copy,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as chat:
            _talk(chat, copy)
        return chat.returncode


def _talk(chat: subprocess.Popen[str], copy: Path) -> None:
    """Type line after line, each when the one before has been answered."""
    assert chat.stdin is not None
    assert chat.stdout is not None
    if not _show_until("lists commands", chat.stdout):
        return
    for line, ends in _lines(copy):
        print(f"\n> {line}", flush=True)
        chat.stdin.write(f"{line}\n")
        chat.stdin.flush()
        if not all(_show_until(end, chat.stdout) for end in ends):
            return


def _lines(copy: Path) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield what is typed, and what lines of the answer hold, up to its last one."""
    yield "Which pages are there?", (" tokens in",)
    yield "Review the page on cleaning.", (" tokens in",)
    style = copy / "house_style.py"
    print("\n(house_style.py is saved: five words instead of twelve)")
    style.write_text(style.read_text().replace("twelve", "five"))
    yield "/reload", ("  writer ", " changed (text)")
    yield "Review it again.", (" tokens in",)


def _show_until(end: str, lines: Iterator[str]) -> bool:
    """Pass on what is printed; return whether there was a line that holds this."""
    for line in lines:
        sys.stdout.write(line)
        sys.stdout.flush()
        if end in line:
            return True
    return False


if __name__ == "__main__":
    sys.exit(main())
