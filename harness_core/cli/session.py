"""One run of a harness without a model: boot the manifest, find the scopes, assemble."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import attrs

from .. import Context, Fiber, FiberState
from ..app import DEFAULT_PLUGINS, Application
from ..errors import HarnessError, closest
from ..loader import Loader, Waiting, find_waiting, raised_at, settle, walk_fibers
from ..prompt import PromptAssembly, SystemPrompt
from ..reload import Roots, reading_sources
from ..scopes import scope_chain_of
from .faults import Fault, Faulty, fault_in_scope
from .payload import GLOBAL, scope_name
from .progress import progress

__all__ = ["ScopeView", "Session", "UnknownScope", "open_session"]


class UnknownScope(Exception):
    """There is no scope of this name."""


@attrs.frozen(eq=False)
class ScopeView:
    """A scope that can be assembled. `key` is None for the global layer."""

    name: str
    key: object | None
    ctx: Context

    @property
    def is_global(self) -> bool:
        """Whether this is the global layer."""
        return self.key is None

    async def assemble(self) -> PromptAssembly:
        """Assemble the scope's request; raises what the assembly raises."""
        prompt: SystemPrompt = self.ctx.get("system_prompt")
        return await prompt.assemble(scope=self.key)


@attrs.frozen(eq=False)
class Session:
    """A tree that runs a manifest and has come to rest. `busy` holds what still loads.

    `reported` holds the errors without a caller that there were on the way: nothing failed for
    them, and somebody has to be told.
    """

    root: Context
    loader: Loader
    busy: list[Fiber]
    reported: list[tuple[Fiber, BaseException]] = attrs.field(
        factory=list[tuple[Fiber, BaseException]]
    )

    def faults(self) -> list[Fault]:
        """Return what could not be mounted, what failed, and what is not done loading."""
        faults = [Fault.of_manifest(error) for error in self.loader.refused.values()]
        faults += [fault for _, fault in self.failed()]
        return [*faults, *(fault for _, fault in self.unfinished())]

    def unfinished(self) -> Iterator[tuple[Fiber, Fault]]:
        """Yield every fiber that is not done loading, with the place of its row."""
        for fiber in self.busy:
            mounted = self.loader.mounted.get(fiber)
            where = str(mounted.entry.place_of("name")) if mounted is not None else None
            yield fiber, Fault(f"fiber {fiber.path} is still {fiber.state.value}", where)

    def failed(self) -> Iterator[tuple[Fiber, Fault]]:
        """Yield every failed fiber with its fault."""
        for fiber in walk_fibers(self.root.fiber):
            if fiber.state is not FiberState.FAILED or fiber.error is None:
                continue
            mounted = self.loader.mounted.get(fiber)
            error = mounted.fault if mounted is not None else None
            if error is not None:
                yield fiber, Fault.of_manifest(error)
            else:
                kind = "" if isinstance(fiber.error, HarnessError) else type(fiber.error).__name__
                said = f"{kind}: {fiber.error}" if kind else str(fiber.error)
                message = f"fiber {fiber.path} failed: {said}"
                yield fiber, Fault(message, raised_at(fiber.error), error=fiber.error)

    def waiting(self) -> list[Waiting]:
        """Return the rows that wait for a service, but not those that wait for a failed row."""
        failed = {
            key
            for fiber, _ in self.failed()
            if (mounted := self.loader.mounted.get(fiber)) is not None
            for key in mounted.provides
        }
        return [row for row in find_waiting(self.loader) if not failed.intersection(row.services)]

    def scopes(self) -> list[ScopeView]:
        """Return the global layer, then every scope, outer ones first."""
        views = [ScopeView(GLOBAL, None, self.root)]
        names = {GLOBAL: 1}
        for key, ctx in self._keys():
            name = scope_name(key)
            names[name] = names.get(name, 0) + 1
            numbered = f"{name}#{names[name]}" if names[name] > 1 else name
            views.append(ScopeView(numbered, key, ctx))
        return views

    def _keys(self) -> list[tuple[Any, Context]]:
        found: dict[int, tuple[Any, Context]] = {}
        for fiber in walk_fibers(self.root.fiber):
            key = fiber.ctx.tag
            if getattr(key, "is_part", False):  # of what agents see, and no agent
                continue
            if key is not None and fiber.ctx.get("system_prompt") is not None:
                found.setdefault(id(key), (key, fiber.ctx))
        return sorted(found.values(), key=lambda pair: len(scope_chain_of(pair[0])))

    def chosen(self, agent: str | None) -> list[ScopeView]:
        """Return the scope of this name, or all; raise UnknownScope."""
        views = self.scopes()
        if agent is None:
            return views
        found = [view for view in views if view.name == agent]
        if not found:
            names = [view.name for view in views]
            guess = closest(agent, names)
            hint = f'; did you mean "{guess}"?' if guess else ""
            raise UnknownScope(f'there is no agent "{agent}" (there are: {", ".join(names)}){hint}')
        return found

    async def assemble(self, views: list[ScopeView]) -> list[tuple[ScopeView, PromptAssembly]]:
        """Assemble scopes; raise Faulty for the first that cannot be."""
        if self.root.get("system_prompt") is None:
            raise Faulty([Fault("no row provides the service system_prompt, which assembles")])
        done: list[tuple[ScopeView, PromptAssembly]] = []
        for view in views:
            try:
                done.append((view, await view.assemble()))
            except Exception as error:
                raise Faulty([fault_in_scope(error, view.name)]) from error
        return done


@asynccontextmanager
async def open_session(
    app: Application, before: Callable[[Context, Loader], object] | None = None
) -> AsyncGenerator[Session]:
    """Boot the manifest of `app`, wait until it has settled, and dispose it in the end.

    `before` is called with the root and the loader before any plugin is imported. Raises
    ManifestError for a faulty file. What fails later is in the session's `faults()`.
    """
    loader = app.loader()
    with reading_sources(Roots([loader.directory])):
        async with Context() as root:
            with progress(app.diagnostics(), "loading plugins"):
                root.provide("loader", loader)
                if before is not None:
                    before(root, loader)
                reported: list[tuple[Fiber, BaseException]] = []
                listening = root.on(
                    "fiber/error", lambda *report: reported.append(report), unfiltered=True
                )
                loader.start(DEFAULT_PLUGINS)
                busy = await settle(root.fiber, app.settings().patience)
                await listening()
            yield Session(root, loader, busy, reported)
