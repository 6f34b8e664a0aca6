"""Providers, listeners and keys that every Python subject calls: the very same objects' code."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Awaitable, Callable
from typing import Any

Text = str | Callable[[Any], str]
Listener = Callable[..., Awaitable[Any]]


class Key:
    """A scope's key; compared by identity."""

    __slots__ = ("__weakref__", "id")

    def __init__(self, identity: str) -> None:
        self.id = identity


def text_of(text: Any) -> Text:
    """Return a fixed text as it is, and make a provider of the scope's id from a description."""
    if isinstance(text, str):
        return text
    prefix: str = text["provider"]

    def provide(context: Any) -> str:
        scope = context.scope
        return prefix + ("none" if scope is None else scope.id)

    return provide


def value_of(value: str) -> Callable[[Any], str]:
    """Return a provider of that value."""

    def provide(_context: Any) -> str:
        return value

    return provide


def assembly_listener(described: dict[str, Any], section: Any, context_entry: Any) -> Listener:
    """Make a listener of the described behaviour; records are made with the given classes."""
    name, text = described["name"], described["text"]

    async def append_section(assembly: Any, _context: Any, next: Any) -> Any:
        assembly.sections.append(section(name, text))
        return await next()

    async def mutate_text(assembly: Any, _context: Any, next: Any) -> Any:
        for entry in assembly.sections:
            if entry.name == name:
                entry.text += text
        return await next()

    async def after_append_context(_assembly: Any, _context: Any, next: Any) -> Any:
        result = await next()
        result.contexts.append(context_entry(name, text))
        return result

    known = (append_section, mutate_text, after_append_context)
    return next(each for each in known if each.__name__ == described["behaviour"])


def counters(count: int) -> tuple[list[int], list[Callable[[int], None]]]:
    """Return counts, and a listener for each that adds what it hears."""
    heard = [0] * count

    def listener(index: int) -> Callable[[int], None]:
        def hear(value: int) -> None:
            heard[index] += value

        return hear

    return heard, [listener(index) for index in range(count)]


def differences(heard: list[int], before: list[int]) -> list[list[int]]:
    """Return who heard how much since `before`, as pairs."""
    pairs = zip(heard, before, strict=True)
    return [[i, now - then] for i, (now, then) in enumerate(pairs) if now != then]


async def flow(value: int, next: Any) -> int:
    """Add to what the rest of a waterfall returns."""
    return value + int(await next())


async def flow_end() -> int:
    """Return what a waterfall starts from."""
    return 1


def ignore(*_: Any) -> None:
    """Hear an event and do nothing."""


def ends(targets: list[Any]) -> list[Any]:
    """Return the first and the last of the targets, once if they are the same."""
    return targets[:1] if targets[0] is targets[-1] else [targets[0], targets[-1]]


async def traced_bytes(build: Callable[[], Awaitable[Any]], count: int) -> float:
    """Return the bytes that one of `count` units keeps alive, as the allocator counts them."""
    tracemalloc.start()
    try:
        gc.collect()
        before = tracemalloc.get_traced_memory()[0]
        kept = await build()
        gc.collect()
        after = tracemalloc.get_traced_memory()[0]
        del kept
    finally:
        tracemalloc.stop()
    return (after - before) / count
