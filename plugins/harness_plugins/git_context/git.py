"""Running the real `git`: bounded, never asking anybody, never running a repository's programs."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from harness_plugins.workspace.api import Outcome, run_program

__all__ = ["Git", "decoded"]

_SAFE = (
    "--no-pager",
    "-c",
    "core.fsmonitor=false",
    "-c",
    "core.hooksPath=/dev/null",
    "-c",
    "core.quotePath=off",
)

_KEPT = frozenset(
    {
        "GIT_CEILING_DIRECTORIES",
        "GIT_CONFIG_GLOBAL",
        "GIT_CONFIG_NOSYSTEM",
        "GIT_CONFIG_SYSTEM",
        "GIT_DISCOVERY_ACROSS_FILESYSTEM",
        "GIT_EXEC_PATH",
    }
)
"""What the user says about git itself. The rest may say that the repository is elsewhere: inside
a hook, GIT_DIR and its kin point to the repository of the hook."""

_QUIET = {
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_PAGER": "cat",
    "GIT_ASKPASS": "true",
    "SSH_ASKPASS": "true",
    # A partial clone would fetch what is missing, by a program that its settings name.
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_ALLOW_PROTOCOL": "none",
    "LC_ALL": "C",
}

_CONFIG_LIMIT = 100_000


class Git:
    """Git in one directory, with the programs that the repository names turned off."""

    def __init__(self, directory: str) -> None:
        self.directory = directory
        self._environment: Mapping[str, str] = {
            **{
                key: value
                for key, value in os.environ.items()
                if key in _KEPT or not key.startswith("GIT_")
            },
            **_QUIET,
        }

    async def run(self, *arguments: str, limit: int) -> Outcome | None:
        """Return what git says, at most `limit` bytes; None if there is no git."""
        command = ["git", *_SAFE, "-C", self.directory, *arguments]
        return await run_program(command, limit=limit, environment=self._environment)

    async def ask(self, *arguments: str, limit: int) -> bytes | None:
        """Return what git says; None if it is missing or refuses."""
        outcome = await self.run(*arguments, limit=limit)
        return outcome.output if outcome is not None and outcome.is_good else None

    async def turn_off_filters(self) -> bool:
        """Turn off the filters that the repository itself configures; False if it cannot be done.

        `git status` runs them to compare contents. Those of the user stay.
        """
        query = ("config", "--show-scope", "--name-only", "-z", "--get-regexp", r"^filter\.")
        outcome = await self.run(*query, limit=_CONFIG_LIMIT)
        if outcome is None or outcome.is_cut or outcome.code not in (0, 1):
            return False
        fields = decoded(outcome.output).split("\0")
        named = zip(fields[::2], fields[1::2], strict=False)
        local = {key.rpartition(".")[0] for scope, key in named if scope in ("local", "worktree")}
        self._environment = {**self._environment, **_settings(sorted(local))}
        return True


def _settings(filters: Sequence[str]) -> dict[str, str]:
    """Return settings in the form in which names may hold any character."""
    wanted = [
        (f"{each}.{key}", value)
        for each in filters
        for key, value in (("clean", ""), ("smudge", ""), ("process", ""), ("required", "false"))
    ]
    settings = {"GIT_CONFIG_COUNT": str(len(wanted))}
    for number, (key, value) in enumerate(wanted):
        settings[f"GIT_CONFIG_KEY_{number}"] = os.fsencode(key).decode("utf-8", "surrogateescape")
        settings[f"GIT_CONFIG_VALUE_{number}"] = value
    return settings


def decoded(raw: bytes) -> str:
    """Return git's output as text that gives back the same bytes as a path does."""
    return raw.decode("utf-8", "surrogateescape")
