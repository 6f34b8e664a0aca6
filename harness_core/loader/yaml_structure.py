"""Looking at the structure of a YAML text before it is loaded.

Refused, each at its place: tags, keys that are no plain text, nesting beyond reason, and aliases
inside what they stand for, which the parser would silently make empty.
"""

from __future__ import annotations

import re
from typing import Any

from ruamel.yaml.events import (
    AliasEvent,
    CollectionEndEvent,
    CollectionStartEvent,
    MappingStartEvent,
    NodeEvent,
    ScalarEvent,
)

from .places import Place

__all__ = ["Structure"]

MAX_DEPTH = 100

_PLAIN_TAG = re.compile(r"!|(tag:yaml\.org,2002:|!!)(str|int|float|bool|null|seq|map)")


class _Open:
    """A mapping or list that has begun."""

    def __init__(self, anchor: str | None, is_mapping: bool) -> None:
        self.anchor = anchor
        self.is_mapping = is_mapping
        self.count = 0


class Structure:
    """Follows the parser's events."""

    def __init__(self, shown: str) -> None:
        self.shown = shown
        self.open: list[_Open] = []
        self.unfinished: dict[str, bool] = {}
        """Anchors, and whether what they name has begun and not ended."""

    def check(self, event: Any) -> None:
        if isinstance(event, CollectionEndEvent):
            ended = self.open.pop()
            if ended.anchor is not None:
                self.unfinished[ended.anchor] = False
        elif isinstance(event, NodeEvent):
            self._check_node(event)

    def _check_node(self, event: Any) -> None:
        place = Place(self.shown, event.start_mark.line + 1, event.start_mark.column + 1)
        anchor: str | None = event.anchor
        begins = isinstance(event, CollectionStartEvent)
        tag = getattr(event, "tag", None)
        if tag is not None and not _PLAIN_TAG.fullmatch(str(tag)):
            raise place.fault(f"the tag {str(tag)!r} is not supported: write plain values")
        parent = self.open[-1] if self.open else None
        if parent is not None:
            is_key = parent.is_mapping and parent.count % 2 == 0
            parent.count += 1
            if is_key and not isinstance(event, ScalarEvent):
                raise place.fault("a key must be a plain text")
        self._check_anchor(event, anchor, place, begins)
        if begins:
            self.open.append(_Open(anchor, isinstance(event, MappingStartEvent)))
        if len(self.open) > MAX_DEPTH:
            raise place.fault("nested too deeply")

    def _check_anchor(self, event: Any, anchor: str | None, place: Place, begins: bool) -> None:
        if isinstance(event, AliasEvent):
            if self.unfinished.get(str(anchor)):
                raise place.fault("an alias stands inside what it stands for")
        elif anchor is not None:
            self.unfinished[anchor] = begins
