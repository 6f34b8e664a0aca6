"""Minting scopes, asking for them, and aiming dispatches at them. Contract: section 4."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..errors import ScopeError
from ..kernel.completion import Completion
from ..kernel.context import Context
from .keys import ScopeBinding, bind_scope_parent, chain_tags, is_weak, unlink

__all__ = ["Scope", "ScopeTarget", "create_scope", "scope_of", "scope_target"]


class Scope:
    """A minted scope. What is registered through `ctx` is visible in it, and dies with it."""

    __slots__ = ("binding", "ctx", "key")

    def __init__(self, key: object, ctx: Context, binding: ScopeBinding | None) -> None:
        self.key = key
        self.ctx = ctx
        self.binding = binding

    def dispose(self) -> Completion:
        """Undo everything registered in the scope; idempotent, shared, awaitable."""
        return self.ctx.fiber.dispose()

    def __repr__(self) -> str:
        return f"<Scope {self.key!r} {self.ctx.fiber.state.value}>"


def create_scope(ctx: Context, key: object, *, parent: object | None = None) -> Scope:
    """Mint a scope for `key`, owned by the fiber of `ctx`.

    With `parent`, the key is bound to it first: the scope then sees what `parent` and its
    ancestors see. Raises ScopeError if the key is None or already bound, and InactiveFiberError
    if the fiber of `ctx` is closing.
    """
    if key is None:
        raise ScopeError("None is no scope key: it stands for the global layer")
    ctx.fiber.check_open()
    binding = bind_scope_parent(key, parent, owner=ctx.fiber) if parent is not None else None
    try:
        scope_ctx = ctx.own_fiber("scope", tag=key)
    except BaseException:
        if binding is not None:
            binding.forget()
        raise
    if binding is not None:
        scope_ctx.fiber.register("scope link", binding.release)
        if not is_weak(key):
            scope_ctx.root.at_close(lambda: unlink(key), ("scope link", id(key)))
    return Scope(key, scope_ctx, binding)


def scope_of(ctx: Context) -> Any:
    """Return the key of the nearest scope that a context is in, or None."""
    return ctx.tag


class ScopeTarget:
    """A base object, aimed at one scope: what a dispatch takes as `target`."""

    __slots__ = ("_filter", "base", "key")

    def __init__(self, base: object, key: object | None) -> None:
        self.base = base
        self.key = key
        own = getattr(base, "hears", None) if base is not None else None
        self._filter: Callable[[Context], object] | None = own if callable(own) else None

    @property
    def tags(self) -> Sequence[object]:
        """The keys whose listeners hear: the key and its ancestors."""
        return chain_tags(self.key)

    @property
    def filters(self) -> bool:
        """Whether the base has a filter of its own."""
        return self._filter is not None

    def hears(self, ctx: Context) -> bool:
        """Ask the base's own filter about a listener's context."""
        return self._filter is None or bool(self._filter(ctx))


def scope_target(base: object, key: object | None) -> ScopeTarget:
    """Aim a dispatch at `key`: its listeners, its ancestors' and untagged ones hear.

    A `base` with a method `hears(ctx) -> bool` keeps that filter of its own. Without a key only
    untagged listeners hear.
    """
    return ScopeTarget(base, key)
