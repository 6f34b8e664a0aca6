"""The two doors that imports come through, with somebody listening at them.

`builtins.__import__` and `importlib.import_module` are replaced while anybody listens, and put
back exactly when the last one stops. Whoever took hold of a replacement meanwhile can keep it: it
then only passes on. Rejected: a finder alone, which sees only the first import of a module and
not who else imports it.
"""

from __future__ import annotations

import builtins
import importlib
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from types import FrameType, ModuleType
from typing import Any, Protocol

__all__ = ["Listener", "listen"]


class Listener(Protocol):
    """Is told of each import after it has happened, or has failed. Must not raise."""

    def imported(
        self, name: str, scope: Mapping[str, object], items: Sequence[str], level: int
    ) -> None:
        """`import name` or `from name import items` was executed in the namespace `scope`."""
        ...

    def imported_by_call(self, name: str, package: str | None, caller: FrameType) -> None:
        """`import_module(name, package)` was called from the frame `caller`."""
        ...


_listeners: tuple[Listener, ...] = ()
_undo: list[Callable[[], None]] = []


def listen(listener: Listener) -> Callable[[], None]:
    """Tell `listener` of every import until the returned function is called."""
    global _listeners
    if not _listeners:
        _undo.extend((_replace_import(), _replace_import_module()))
    _listeners = (*_listeners, listener)
    is_over = False

    def stop() -> None:
        global _listeners
        nonlocal is_over
        if is_over:
            return
        is_over = True
        left = list(_listeners)
        left.remove(listener)
        _listeners = tuple(left)
        if not _listeners:
            while _undo:
                _undo.pop()()

    return stop


def _replace_import() -> Callable[[], None]:
    original: Callable[..., Any] = builtins.__import__

    @wraps(original)
    def observed(
        name: str,
        globals: Mapping[str, object] | None = None,
        locals: Mapping[str, object] | None = None,
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> ModuleType:
        try:
            module: ModuleType = original(name, globals, locals, fromlist, level)
            return module
        finally:
            if globals is not None:
                for listener in _listeners:
                    listener.imported(name, globals, fromlist or (), level)

    builtins.__import__ = observed

    def restore() -> None:
        # Somebody who wrapped this one keeps it; it has no listeners left.
        if builtins.__import__ is observed:
            builtins.__import__ = original

    return restore


def _replace_import_module() -> Callable[[], None]:
    original = importlib.import_module

    @wraps(original)
    def observed(name: str, package: str | None = None) -> ModuleType:
        try:
            return original(name, package)
        finally:
            caller = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
            for listener in _listeners:
                listener.imported_by_call(name, package, caller)

    importlib.import_module = observed

    def restore() -> None:
        if importlib.import_module is observed:
            importlib.import_module = original

    return restore
