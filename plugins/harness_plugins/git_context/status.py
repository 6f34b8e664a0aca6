"""Reading `git status --porcelain=v2 --branch -z`."""

from __future__ import annotations

import attrs

__all__ = ["Status", "parse_status", "shown"]

_LONGEST = 120


@attrs.frozen
class Status:
    """What a repository's status says. `files` holds (two-letter code, path)."""

    branch: str | None
    upstream: str | None
    ahead: int
    behind: int
    files: tuple[tuple[str, str], ...]


def parse_status(raw: bytes) -> Status:
    """Return the status that git's output describes; a cut last record is left out."""
    *records, _ = raw.decode("utf-8", "replace").split("\0")
    headers: dict[str, str] = {}
    files: list[tuple[str, str]] = []
    queue = iter(records)
    for record in queue:
        kind, _, body = record.partition(" ")
        if kind == "#":
            key, _, value = body.partition(" ")
            headers[key] = value
        elif kind == "?":
            files.append(("??", body))
        elif kind in ("1", "2", "u"):
            fields = body.split(" ", {"1": 7, "2": 8, "u": 9}[kind])
            files.append((fields[0].replace(".", " "), fields[-1]))
            if kind == "2":
                next(queue, None)  # where a renamed file was before
    branch = headers.get("branch.head")
    ahead, behind = _distance(headers.get("branch.ab", ""))
    return Status(
        branch=None if branch in (None, "(detached)") else branch,
        upstream=headers.get("branch.upstream"),
        ahead=ahead,
        behind=behind,
        files=tuple(files),
    )


def _distance(text: str) -> tuple[int, int]:
    ahead, _, behind = text.partition(" ")
    return abs(int(ahead or 0)), abs(int(behind or 0))


def shown(text: str) -> str:
    """Return a text of one line, with control characters as escapes, cut if it is long."""
    safe = "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode()
        for character in text
    )
    return safe if len(safe) <= _LONGEST else safe[: _LONGEST - 3] + "..."
