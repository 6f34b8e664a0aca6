"""Scope keys and their parents: any object, compared by identity, linked into chains.

A link outlives the scope that was minted with it, so that assembling for a disposed scope still
sees what is left of its chain; it goes with its key. Keys that cannot be weakly referenced
(strings, numbers, plain containers) keep their links until `unlink`, which the tree that minted
them calls when it closes. Contract: section 4.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator

import attrs

from ..errors import ScopeError
from ..kernel.fiber import Fiber
from ..kernel.life import succeeds

__all__ = [
    "ScopeBinding",
    "bind_scope_parent",
    "chain_tags",
    "epoch",
    "scope_chain_of",
    "scope_parent_of",
    "unlink",
]


class _Link:
    """A key's parent. Holds the parent strongly and the key as weakly as it allows."""

    __slots__ = ("following", "key_ref", "owner", "parent", "released")

    def __init__(self, key: object, parent: object, owner: Fiber | None) -> None:
        self.parent = parent
        self.owner = owner
        """The fiber that minted the scope."""
        self.released = False
        """The scope that the link was made for is gone; another may take the key over."""
        self.following: _Link | None = None
        """The link of the same key that the next life of the same plugin has made."""
        identity = id(key)
        try:
            self.key_ref: object = weakref.ref(key, lambda _: _links.pop(identity, None))
        except TypeError:
            self.key_ref = key


_links: dict[int, _Link] = {}
_epoch = 0


def epoch() -> int:
    """Return a number that changes whenever a link changes after it was made."""
    return _epoch


@attrs.define(eq=False)
class ScopeBinding:
    """The right to move a key under another parent. Only `bind_scope_parent` hands it out."""

    key: object
    _link: _Link = attrs.field(alias="link")

    @property
    def parent(self) -> object | None:
        """The present parent."""
        return self._link.parent

    def release(self) -> None:
        """Let the key be bound anew; until then the link goes on."""
        global _epoch
        link = self._link
        link.released, link.owner = True, None
        present = _links.get(id(self.key))
        if present is not None and present.following is link:
            present.following = None
        elif present is link and link.following is not None:
            _links[id(self.key)] = link.following
            _epoch += 1

    def forget(self) -> None:
        """Take the link back as if it had never been made."""
        self.release()
        if _links.get(id(self.key)) is self._link:
            unlink(self.key)

    def rebind(self, parent: object | None) -> None:
        """Link the key to another parent, or to none.

        Raises ScopeError, and changes nothing, if that would close a cycle or the link is gone.
        """
        global _epoch
        present = _links.get(id(self.key))
        if present is None or self._link not in (present, present.following):
            raise ScopeError(f"scope key {self.key!r} is no longer bound by this binding")
        _refuse_cycle(self.key, parent)
        self._link.parent = parent
        _epoch += 1


def bind_scope_parent(
    key: object, parent: object | None, *, owner: Fiber | None = None
) -> ScopeBinding:
    """Make `parent` the parent of `key`, once; return the binding that may change it.

    Raises ScopeError if `key` is bound already, or if the link would close a cycle. Where a plugin
    lives twice for a moment, what its next life binds follows what the present one has bound.
    """
    global _epoch
    link = _links.get(id(key))
    if link is not None and not link.released:
        if link.following is None and _takes_over(owner, link.owner):
            _refuse_cycle(key, parent)
            link.following = _Link(key, parent, owner)
            return ScopeBinding(key, link.following)
        raise ScopeError(
            f"scope key {key!r} is already bound to a parent; only the binding that was returned "
            "then may rebind it"
        )
    _refuse_cycle(key, parent)
    link = _links[id(key)] = _Link(key, parent, owner)
    _epoch += 1
    return ScopeBinding(key, link)


def _takes_over(owner: Fiber | None, former: Fiber | None) -> bool:
    return owner is not None and former is not None and succeeds(owner, former)


def unlink(key: object) -> None:
    """Forget the parent of a key."""
    global _epoch
    if _links.pop(id(key), None) is not None:
        _epoch += 1


def is_weak(key: object) -> bool:
    """Whether the link of `key` goes by itself when the key does."""
    link = _links.get(id(key))
    return link is None or isinstance(link.key_ref, weakref.ref)


def _refuse_cycle(key: object, parent: object | None) -> None:
    if any(ancestor is key for ancestor in _walk(parent)):
        raise ScopeError(
            f"scope key {key!r} cannot have parent {parent!r}: the chain would be a cycle"
        )


def _walk(key: object | None) -> Iterator[object]:
    while key is not None:
        yield key
        link = _links.get(id(key))
        key = link.parent if link is not None else None


def scope_parent_of(key: object) -> object | None:
    """Return the parent of a scope key, or None."""
    link = _links.get(id(key))
    return link.parent if link is not None else None


def scope_chain_of(key: object | None) -> list[object]:
    """Return the chain of a scope key: itself first, then its ancestors. Empty for None."""
    return list(_walk(key))


def chain_tags(key: object | None) -> list[object]:
    """Return `scope_chain_of(key)`, without a generator: it is asked for at each dispatch."""
    chain: list[object] = []
    while key is not None:
        chain.append(key)
        link = _links.get(id(key))
        key = link.parent if link is not None else None
    return chain
