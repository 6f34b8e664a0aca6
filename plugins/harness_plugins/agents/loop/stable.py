"""How much of an agent's system text stays as it was from one step to the next."""

from __future__ import annotations

from weakref import WeakKeyDictionary

from harness_core.prompt import PromptAssembly, render_prompt

from .speaker import Speaker

__all__ = ["stable_characters", "stable_part"]

_last: WeakKeyDictionary[Speaker, tuple[str, ...]] = WeakKeyDictionary()
"""The texts of the sections, without the empty ones, in the last step of each agent."""


def stable_characters(agent: Speaker, assembly: PromptAssembly) -> int | None:
    """Return how many leading characters of the text the agent's last step had too.

    None if there is no reason to expect a change: see `stable_part`. Keeps the texts for next time.
    """
    before, now = _last.get(agent), _sections(assembly)
    _last[agent] = now
    return stable_part(before, now)


def stable_part(before: tuple[str, ...] | None, now: tuple[str, ...]) -> int | None:
    """Return how many leading characters two system texts share, counting whole sections only.

    None if they are all the same, or if there was no last one.
    """
    if before is None or before == now:
        return None
    shared = 0
    for old, new in zip(before, now, strict=False):
        if old != new:
            break
        shared += 1
    return len("\n\n".join(now[:shared]))


def _sections(assembly: PromptAssembly) -> tuple[str, ...]:
    rendered = (
        render_prompt(PromptAssembly([section], variables=assembly.variables))
        for section in assembly.sections
    )
    return tuple(text for text in rendered if text)
