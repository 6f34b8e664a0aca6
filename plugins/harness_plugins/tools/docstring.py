"""A docstring as a description and the descriptions of parameters.

Understands the three usual ways: `Args:` with indented `name: text`, `:param name: text`, and
`Parameters` underlined with dashes. The parts about parameters leave the description.
"""

from __future__ import annotations

import inspect
import re

__all__ = ["read_docstring"]

_ARGS = re.compile(r"(Args|Arguments|Parameters):\s*")
_ITEM = re.compile(r"\*{0,2}(\w+)\s*(?:\([^)]*\))?\s*:\s*(.*)")
_FIELD = re.compile(r":param\s+(?:[^:]*\s)?(\w+)\s*:\s*(.*)")
_NUMPY_ITEM = re.compile(r"(\w+)\s*(?::.*)?")


def read_docstring(text: str | None) -> tuple[str, dict[str, str]]:
    """Return the description, and what the docstring says of each parameter."""
    lines = inspect.cleandoc(text or "").split("\n")
    kept: list[str] = []
    found: dict[str, list[str]] = {}
    at = 0
    while at < len(lines):
        line = lines[at]
        field = _FIELD.fullmatch(line)
        if field:
            found[field[1]] = [field[2]]
            at = _continue(lines, at + 1, found[field[1]])
        elif _ARGS.fullmatch(line) and at + 1 < len(lines) and lines[at + 1].startswith(" "):
            at = _read_block(lines, at + 1, found, _ITEM)
        elif line == "Parameters" and at + 1 < len(lines) and set(lines[at + 1]) == {"-"}:
            at = _read_numpy(lines, at + 2, found)
        else:
            kept.append(line)
            at += 1
    description = re.sub(r"\n{3,}", "\n\n", "\n".join(kept)).strip()
    return description, {name: " ".join(words).strip() for name, words in found.items()}


def _continue(lines: list[str], at: int, words: list[str]) -> int:
    """Take the indented lines that go on with what the last one said."""
    while at < len(lines) and lines[at].startswith(" "):
        words.append(lines[at].strip())
        at += 1
    return at


def _read_block(
    lines: list[str], at: int, found: dict[str, list[str]], item: re.Pattern[str]
) -> int:
    indent = len(lines[at]) - len(lines[at].lstrip())
    words: list[str] = []
    while at < len(lines) and (not lines[at].strip() or lines[at].startswith(" ")):
        text = lines[at].strip()
        match = item.fullmatch(text)
        if match and len(lines[at]) - len(lines[at].lstrip()) == indent:
            words = found[match[1]] = [match[2]]
        elif text:
            words.append(text)
        at += 1
    return at


def _read_numpy(lines: list[str], at: int, found: dict[str, list[str]]) -> int:
    words: list[str] = []
    while at < len(lines):
        is_heading = at + 1 < len(lines) and lines[at + 1] and set(lines[at + 1]) == {"-"}
        if is_heading:
            break
        line = lines[at]
        match = _NUMPY_ITEM.fullmatch(line) if line and not line.startswith(" ") else None
        if match:
            words = found[match[1]] = []
        elif line.startswith(" "):
            words.append(line.strip())
        elif line:
            break
        at += 1
    return at
