"""A plain harness for the systems that only change code: sections, effects and state by hand.

It has the same names as the context of this project, so that all systems run the same plugins.
Each plugin has a place of its own, and keeps what it registered if its new body raises.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import attrs

__all__ = ["Host"]

Text = str | Callable[[], str]


@attrs.define
class _Prompt:
    sections: list[tuple[int, Text]] = attrs.field(factory=list[tuple[int, Text]])

    def section(self, name: str, text: Text, *, order: int) -> None:
        """Register a section."""
        del name
        self.sections.append((order, text))


@attrs.define
class _Context:
    """What a plugin's body is given, for one run of it."""

    state: dict[str, Any]
    system_prompt: _Prompt = attrs.field(factory=_Prompt)
    teardowns: list[Callable[[], object]] = attrs.field(factory=list[Callable[[], object]])

    def effect(self, body: Callable[[], Callable[[], object]]) -> None:
        """Set something up, and remember how to take it down."""
        self.teardowns.append(body())

    def carry(self, key: str, default: Any) -> Any:
        """Return what is kept under a key over reloads."""
        return self.state.setdefault(key, default)

    def take_down(self) -> None:
        """Take down what was set up, newest first."""
        while self.teardowns:
            self.teardowns.pop()()


class Host:
    """Some modules, run as plugins."""

    def __init__(self, plugins: tuple[str, ...]) -> None:
        self._contexts = {name: _Context({}) for name in plugins}

    def take_down(self) -> None:
        """Take down what the plugins have set up; their sections stay until they run again."""
        for context in reversed(self._contexts.values()):
            context.take_down()

    def run(self) -> None:
        """Run every plugin's body; one that raises keeps its sections. Raises the last error."""
        fault: Exception | None = None
        for name, old in self._contexts.items():
            new = _Context(old.state)
            try:
                sys.modules[name].apply(new)
            except Exception as error:
                new.take_down()
                fault = error
            else:
                self._contexts[name] = new
        if fault is not None:
            raise fault

    def prompt(self) -> tuple[str, ...]:
        """Return the texts, by order and then by plugin."""
        found = [
            one for context in self._contexts.values() for one in context.system_prompt.sections
        ]
        texts = [text for _, text in sorted(found, key=lambda pair: pair[0])]
        return tuple(text if isinstance(text, str) else text() for text in texts)
