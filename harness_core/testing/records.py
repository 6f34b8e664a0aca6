"""The ledger of a fiber: what it and everything below it has registered, as frozen records."""

from __future__ import annotations

from collections.abc import Iterator

import attrs

from ..kernel.context import Context
from ..kernel.effects import EffectInfo
from ..kernel.fiber import Fiber

__all__ = ["Ledger", "ledger"]


@attrs.frozen
class Ledger:
    """What one fiber has registered, oldest first, with file and line, and its children's ledgers.

    `effects` is a tree: what was registered inside an effect's body is among its `children`.
    Ledgers compare by value, so two of them say whether a restart has changed anything.
    """

    path: str
    name: str
    state: str
    services: tuple[str, ...]
    waiting_for: tuple[str, ...]
    effects: tuple[EffectInfo, ...]
    children: tuple[Ledger, ...]

    def __iter__(self) -> Iterator[tuple[str, EffectInfo]]:
        """Yield (path of the owner, effect) for every effect, nested and of children too."""
        for effect in self.effects:
            yield from _nested(self.path, effect)
        for child in self.children:
            yield from child

    @property
    def labels(self) -> list[str]:
        """The labels of every effect, in the order of iteration."""
        return [effect.label for _, effect in self]

    def __str__(self) -> str:
        return "\n".join(_lines(self, ""))


def _nested(owner: str, effect: EffectInfo) -> Iterator[tuple[str, EffectInfo]]:
    yield owner, effect
    for child in effect.children:
        yield from _nested(owner, child)


def _lines(record: Ledger, indent: str) -> Iterator[str]:
    yield f"{indent}{record.name} ({record.state})"
    for effect in record.effects:
        yield from _effect_lines(effect, indent + "  ")
    for child in record.children:
        yield from _lines(child, indent + "  ")


def _effect_lines(effect: EffectInfo, indent: str) -> Iterator[str]:
    yield f"{indent}{effect}"
    for child in effect.children:
        yield from _effect_lines(child, indent + "  ")


def ledger(of: Context | Fiber) -> Ledger:
    """Return the ledger of a fiber, or of the fiber that a context belongs to."""
    fiber = of.fiber if isinstance(of, Context) else of
    return Ledger(
        path=fiber.path,
        name=fiber.name,
        state=fiber.state.value,
        services=tuple(fiber.services),
        waiting_for=tuple(fiber.waiting_for),
        effects=tuple(fiber.effects()),
        children=tuple(ledger(child) for child in fiber.children),
    )
