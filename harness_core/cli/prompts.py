"""The prompts of a running harness: as they are, as they were, and whether they still can be.

Contract: section 9.
"""

from __future__ import annotations

import anyio
import attrs

from ..errors import HarnessError
from ..prompt import (
    AssemblyDiff,
    PromptAssembly,
    diff_assemblies,
    render_context_snapshot,
    render_prompt,
)
from .faults import Fault, fault_in_scope
from .session import ScopeView, Session

__all__ = ["Look", "Prompts", "UnusablePromptError"]


PATIENCE = 5.0
"""Seconds that the assembly of one scope may take."""


class UnusablePromptError(HarnessError):
    """A prompt that was well before a change, and can no longer be assembled or rendered."""

    def __init__(self, fault: Fault) -> None:
        self.fault = fault
        place = f"{fault.where}: " if fault.where else ""
        super().__init__(f"{place}{fault.message}")


@attrs.frozen
class Look:
    """The system text of each scope, what has changed since the last look, and what is wrong."""

    texts: dict[str, str]
    diffs: dict[str, AssemblyDiff]
    faults: tuple[Fault, ...]


class Prompts:
    """The prompts of every scope of a session."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._last: dict[str, PromptAssembly] = {}
        self._well: set[str] = set()
        """The scopes whose prompts could be assembled and rendered the last time."""

    async def look(self) -> Look:
        """Assemble every scope."""
        prompts = await self._assemble()
        diffs = {
            name: diff_assemblies(self._last[name], one.assembly)
            for name, one in prompts.items()
            if name in self._last and one.assembly is not None
        }
        last = {name: one.assembly or self._last.get(name) for name, one in prompts.items()}
        self._last = {name: one for name, one in last.items() if one is not None}
        self._well = {name for name, one in prompts.items() if one.fault is None}
        texts = {name: one.text for name, one in prompts.items() if one.fault is None}
        faults = (one.fault for one in prompts.values() if one.fault is not None)
        return Look(texts, diffs, tuple(faults))

    async def judge(self) -> UnusablePromptError | None:
        """Return why what has changed cannot stay: a prompt that was well and is not any more."""
        for name, one in (await self._assemble()).items():
            if one.fault is not None and name in self._well:
                return UnusablePromptError(one.fault)
        return None

    async def _assemble(self) -> dict[str, _Prompt]:
        session = self._session
        views = session.scopes() if session.root.get("system_prompt") is not None else []
        return {view.name: await _prompt_of(view) for view in views}


@attrs.frozen
class _Prompt:
    """The prompt of one scope, or what keeps it from being one."""

    assembly: PromptAssembly | None = None
    text: str = ""
    fault: Fault | None = None


async def _prompt_of(view: ScopeView) -> _Prompt:
    assembly: PromptAssembly | None = None
    try:
        with anyio.fail_after(PATIENCE):
            assembly = await view.assemble()
        render_context_snapshot(assembly)
        return _Prompt(assembly, render_prompt(assembly))
    except Exception as caught:
        error = caught
        if isinstance(error, TimeoutError) and not str(error):
            error = TimeoutError(f"it is not done after {PATIENCE:g} seconds")
        return _Prompt(fault=fault_in_scope(error, view.name, assembly, view.ctx.kernel.texts))
