"""The tool filter of a declared agent: the tools it names may be registered later than it is.

It never lets through more than it should: until a name is known it counts as not allowed. While
one is unknown, assembling for the agent fails, as it does for an unknown name in `tool_order`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from harness_core import Context, Effect
from harness_core.errors import closest
from harness_core.prompt import CHANGE, PromptAssembly, SystemPrompt
from harness_plugins.tools.api import Tools

from .errors import AgentError

__all__ = ["LateFilter"]


class LateFilter:
    """One filter: `given` maps "allow" and "deny" to names of tools."""

    def __init__(self, agent: str, given: Mapping[str, list[str]]) -> None:
        self.agent = agent
        self.given = given
        self.known: frozenset[str] = frozenset()
        self._in_force: dict[str, list[str]] | None = None
        self._restriction: Effect | None = None
        self._waiting: Effect | None = None

    def hold(self, ctx: Context) -> None:
        """Filter what the scope of `ctx` inherits, whenever there are tools."""
        ctx[SystemPrompt].final_check(self.check_names)
        ctx.inject(["tools"], self._follow)

    def check_names(self, _: PromptAssembly) -> None:
        """Raise AgentError for names that nobody has registered by now."""
        missing = [
            name for names in self.given.values() for name in names if name not in self.known
        ]
        if not missing:
            return
        guesses = [guess for name in missing if (guess := closest(name, self.known))]
        hint = f"; did you mean {', '.join(guesses)}?" if guesses else ""
        raise AgentError(
            f'agent "{self.agent}": tools names {", ".join(missing)}, which nobody registers{hint} '
            f"(known tools: {', '.join(sorted(self.known)) or '(none)'})"
        )

    def _follow(self, ctx: Context) -> Any:
        tools = ctx[Tools]

        def fit() -> None:
            self.known = frozenset(tools.known_names(ctx.tag))
            wanted = {
                key: [name for name in names if name in self.known]
                for key, names in self.given.items()
            }
            if wanted == self._in_force:
                return
            self._in_force = wanted
            before, self._restriction = self._restriction, tools.restrict(**wanted)
            if before is not None:
                before()
            if wanted == self.given and self._waiting is not None:
                self._waiting()  # nothing is missing any more: no need to look again

        def forget() -> None:
            self.known = frozenset()
            self._in_force = self._restriction = self._waiting = None

        self._waiting = ctx.on(CHANGE, fit, unfiltered=True)
        fit()
        return forget
