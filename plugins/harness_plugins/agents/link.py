"""Link: what an agent sees beyond its own scope, and how it moves from one preset to another.

It is one link: to the scope of its preset if it has one, else to its parent's scope, else none.
"""

from __future__ import annotations

from collections.abc import Callable

import anyio

from harness_core import Context, ScopeBinding, bind_scope_parent
from harness_core.prompt import SystemPrompt
from harness_plugins.presets.api import Joined, PresetError, find_presets

__all__ = ["Link"]


class Link:
    """The link of an agent, whose scope has the key `agent`."""

    __slots__ = ("_agent", "_binding", "_is_checked", "_moving", "_parent", "joined")

    def __init__(self, agent: object) -> None:
        self._agent = agent
        self._parent: object | None = None
        self._binding: ScopeBinding | None = None
        self._is_checked = False
        self._moving: anyio.Lock | None = None
        self.joined: Joined | None = None
        """The generation of its preset that the agent has joined."""

    def see(self, parent: object | None) -> None:
        """See this parent, unless there is a preset; raise ScopeError for a circle."""
        before, self._parent = self._parent, parent
        try:
            self._bind()
        except BaseException:
            self._parent = before
            raise

    async def switch(self, ctx: Context, preset: str | None, check: Callable[[], None]) -> None:
        """Join another preset, or none, for `ctx`; see `Agent.switch_preset`.

        `check` raises an error if the agent is not there any more. Nothing is awaited between it
        and the move.
        """
        if self._moving is None:
            self._moving = anyio.Lock()
        async with self._moving:
            before = self.joined
            after = await find_presets(ctx).join(preset) if preset is not None else None
            try:
                check()
                if after is not None and not self._is_checked:
                    ctx[SystemPrompt].tools(self._check_joined)
                    self._is_checked = True
            except BaseException:
                await _left(after)
                raise
            self.joined = after
            self._bind()
            await _left(before)

    def _bind(self) -> None:
        above = self.joined.key if self.joined is not None else self._parent
        if self._binding is not None:
            self._binding.rebind(above)
        elif above is not None:
            self._binding = bind_scope_parent(self._agent, above)

    def _check_joined(self) -> tuple[()]:
        """Raise PresetError if what the agent sees of its preset is not there; else do nothing.

        It stands among the providers of tools, since these are asked at once when an assembly
        begins: one that is under way goes on as it began.
        """
        if self.joined is not None and not self.joined.generation.is_mounted:
            raise PresetError(
                f'agent "{self._agent}" has joined the preset "{self.joined.preset}", and the '
                "plugin presets is gone: mount it again, or switch the agent to no preset"
            )
        return ()


async def _left(joined: Joined | None) -> None:
    """Leave a generation and wait for its end: the agent has moved, and cannot move back."""
    if joined is not None:
        gone = joined.leave()
        with anyio.CancelScope(shield=True):
            await gone
