"""What is under way in a repository: a rebase, a merge and their kin. Blocking, and quick."""

from __future__ import annotations

import os
import stat

__all__ = ["under_way"]

_LONGEST = 1000

_MARKS = (
    ("MERGE_HEAD", "merge"),
    ("CHERRY_PICK_HEAD", "cherry-pick"),
    ("REVERT_HEAD", "revert"),
)


def under_way(git_directory: str) -> list[str]:
    """Return what is in progress: "merge", "rebase of topic, step 2 of 5", "bisect", ..."""
    found = _rebase(git_directory)
    if not found:
        # A rebase picks too, so these count only without one.
        found = [word for mark, word in _MARKS if _exists(git_directory, mark)]
        if not found and _exists(git_directory, "sequencer"):
            found = ["cherry-pick or revert of several commits"]
    return [*found, *(["bisect"] if _exists(git_directory, "BISECT_LOG") else [])]


def _rebase(git_directory: str) -> list[str]:
    for name, number, last in (("rebase-merge", "msgnum", "end"), ("rebase-apply", "next", "last")):
        place = os.path.join(git_directory, name)
        if not os.path.isdir(place):
            continue
        if _exists(place, "applying"):
            what = "git am"
        else:
            branch = _read(place, "head-name")
            what = "rebase"
            if branch.startswith("refs/heads/"):
                what += f" of {branch.removeprefix('refs/heads/')}"
        step, steps = _read(place, number), _read(place, last)
        if step.isdecimal() and steps.isdecimal():
            what += f", step {step} of {steps}"
        return [what]
    return []


def _exists(directory: str, name: str) -> bool:
    return os.path.lexists(os.path.join(directory, name))


def _read(directory: str, name: str) -> str:
    """Return the one line of a small regular file; nothing of what is a link or anything else."""
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    try:
        file = os.open(os.path.join(directory, name), flags)
    except OSError:
        return ""
    try:
        is_regular = stat.S_ISREG(os.fstat(file).st_mode)
        raw = os.read(file, _LONGEST) if is_regular else b""
    except OSError:
        return ""
    finally:
        os.close(file)
    return raw.decode("utf-8", "surrogateescape").strip()
