"""What other plugins may use of `agents`: the records and the service."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from harness_core import Scope
from harness_core.errors import closest

__all__ = ["Agent", "Agents"]


class Agent:
    """An agent: the key of its scope. `parent` is the agent whose scope it also sees."""

    __slots__ = ("__weakref__", "name", "parent")

    def __init__(self, name: str, parent: Agent | None = None) -> None:
        self.name = name
        self.parent = parent

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f'Agent("{self.name}")'


class Agents:
    """The service `agents`: the declared agents by name, each a scope key.

    await ctx.system_prompt.assemble(scope=ctx.agents["reviewer"])
    """

    def __init__(self, scopes: Mapping[str, Scope]) -> None:
        self._scopes = dict(scopes)

    def __getitem__(self, name: str) -> Agent:
        return self._agent(self.scope(name))

    def get(self, name: str) -> Agent | None:
        """Return an agent, or None."""
        scope = self._scopes.get(name)
        return self._agent(scope) if scope is not None else None

    def scope(self, name: str) -> Scope:
        """Return an agent's scope; raise LookupError if there is no such agent."""
        scope = self._scopes.get(name)
        if scope is None:
            guess = closest(name, self._scopes)
            hint = f'; did you mean "{guess}"?' if guess else ""
            known = ", ".join(self._scopes) or "(none)"
            raise LookupError(f'there is no agent "{name}"; agents: {known}{hint}')
        return scope

    @staticmethod
    def _agent(scope: Scope) -> Agent:
        assert isinstance(scope.key, Agent)
        return scope.key

    def __iter__(self) -> Iterator[str]:
        return iter(self._scopes)

    def __len__(self) -> int:
        return len(self._scopes)

    def __contains__(self, name: object) -> bool:
        return name in self._scopes

    def __repr__(self) -> str:
        return f"<Agents {', '.join(self._scopes) or '(none)'}>"
