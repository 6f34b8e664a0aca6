"""Changing single values in the text of a YAML file; every other character stays as it is.

The parser says where values stand; a change cuts one piece out of the text and puts another in.
Rejected: loading and dumping the whole, which lays out anew what nobody touched.
"""

from __future__ import annotations

import re
import warnings
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.nodes import MappingNode, ScalarNode

from .yaml_write import block_text, flow_text

__all__ = ["YamlText", "is_mapping"]

_ALIAS = re.compile(r"\s*\*[^\s,\[\]{}]+")


class YamlText:
    """A YAML text, and the nodes in it."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.newline = "\r\n" if "\r\n" in text else "\n"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            parser: Any = YAML(typ="rt", pure=True)
            self.root: Any = parser.compose(text)

    # Looking

    def key(self, mapping: Any, key: str) -> tuple[Any, Any] | None:
        """Return the nodes of a key and its value, or None."""
        return next((pair for pair in mapping.value if pair[0].value == key), None)

    def _begin(self, node: Any) -> int:
        begin: int = node.start_mark.index
        return begin

    def _end_of(self, key: Any, value: Any) -> int:
        """Return where the value of a key ends."""
        colon = self.text.index(":", self._end(key)) + 1
        alias = _ALIAS.match(self.text, colon)
        if alias is not None:
            return alias.end()
        is_empty = _is_scalar(value) and value.start_mark.index == value.end_mark.index
        return colon if is_empty else max(self._end(value), colon)

    def _end(self, node: Any) -> int:
        """Return where the content of a node ends, comments and white space after it aside."""
        if not _is_scalar(node) and not node.flow_style and node.value:
            last: Any = node.value[-1]
            if is_mapping(node):
                return self._end_of(*last)
            return max(self._end(last), self._begin(node) + 1)
        end: int = node.end_mark.index
        return max(len(self.text[:end].rstrip()), self._begin(node))

    def _line_end(self, at: int) -> int:
        """Return where the line ends, its line end aside."""
        found = self.text.find("\n", at)
        if found < 0:
            return len(self.text)
        return found - 1 if self.text[found - 1 : found] == "\r" else found

    def _line_begin(self, at: int) -> int:
        return self.text.rfind("\n", 0, at) + 1

    def _cut(self, begin: int, end: int, new: str) -> str:
        return self.text[:begin] + new + self.text[end:]

    def _without_lines(self, begin: int, end: int) -> str:
        """Return the text without the lines from one place to the other."""
        after = self.text.find("\n", end)
        return self._cut(self._line_begin(begin), len(self.text) if after < 0 else after + 1, "")

    # Changing

    def set_key(self, mapping: Any, key: str, value: object) -> str:
        """Return the text with a key that has this value, in its place or at the end."""
        pair = self.key(mapping, key)
        if pair is not None:
            return self._set_value(mapping, *pair, value)
        if mapping.flow_style:
            return self._into_flow(mapping, f"{flow_text(key)}: {flow_text(value)}")
        column: int = mapping.start_mark.column
        at = self._line_end(self._end(mapping))
        block = block_text({key: value}, column, self.newline)
        return self._cut(at, at, f"{self.newline}{' ' * column}{block}")

    def _set_value(self, mapping: Any, key: Any, value_node: Any, value: object) -> str:
        colon = self.text.index(":", self._end(key)) + 1
        end = self._end_of(key, value_node)
        if mapping.flow_style:
            return self._cut(colon, end, f" {flow_text(value)}")
        column: int = mapping.start_mark.column
        block = block_text({"x": value}, column, self.newline)[2:]
        if self.newline in block:  # a comment behind the key stays behind the key
            begin = value_node.start_mark.index
            begin = self._line_end(colon) if begin > self._line_end(colon) else colon
            return self._cut(begin, end, block)
        return self._cut(colon, end, block)

    def set_item(self, sequence: Any, index: int, value: object) -> str:
        """Return the text with another item in the place of one."""
        node = sequence.value[index]
        return self._cut(self._begin(node), self._end(node), flow_text(value))

    def without_key(self, mapping: Any, key: str) -> str:
        """Return the text without a key."""
        pairs: list[Any] = mapping.value
        at = next(number for number, pair in enumerate(pairs) if pair[0].value == key)
        begin, end = self._begin(pairs[at][0]), self._end_of(*pairs[at])
        if len(pairs) == 1:
            return self._cut(self._begin(mapping), self._end(mapping), "{}")
        following = self._begin(pairs[at + 1][0]) if at + 1 < len(pairs) else None
        if mapping.flow_style:
            if following is not None:
                return self._cut(begin, following, "")
            return self._cut(self._end_of(*pairs[at - 1]), end, "")
        if at == 0 and following is not None:  # it shares its line with the dash
            return self._cut(begin, following, "")
        return self._without_lines(begin, end)

    def without_item(self, sequence: Any, index: int) -> str:
        """Return the text without an item of a list."""
        items: list[Any] = sequence.value
        begin, end = self._begin(items[index]), self._end(items[index])
        if len(items) == 1:
            if sequence.flow_style or sequence is not self.root:
                empty = "[]" if sequence.flow_style else "  []"
                return self._cut(self._begin(sequence), self._end(sequence), empty)
            dash = self.text.rindex("-", 0, begin + 1) if begin else 0
            return self._cut(self._line_begin(dash), end, "[]")
        if not sequence.flow_style:
            return self._without_lines(self.text.rindex("-", 0, begin), end)
        if index + 1 < len(items):
            return self._cut(begin, self._begin(items[index + 1]), "")
        return self._cut(self._end(items[index - 1]), end, "")

    def with_item(self, sequence: Any, value: object) -> str:
        """Return the text with one more item at the end of a list."""
        if not sequence.value and sequence is self.root:
            row = f"- {block_text(value, 2, self.newline)}"
            return self._cut(self._begin(sequence), self._end(sequence), row)
        if sequence.flow_style:
            return self._into_flow(sequence, flow_text(value))
        column: int = sequence.start_mark.column
        at = self._line_end(self._end(sequence))
        row = block_text(value, column + 2, self.newline)
        return self._cut(at, at, f"{self.newline}{' ' * column}- {row}")

    def _into_flow(self, node: Any, inner: str) -> str:
        closing = node.end_mark.index - 1
        if not node.value:
            return self._cut(self._begin(node) + 1, closing, inner)
        last = node.value[-1]
        end = self._end_of(*last) if is_mapping(node) else self._end(last)
        return self._cut(end, end, f", {inner}")


def _is_scalar(node: object) -> bool:
    return isinstance(node, ScalarNode)


def is_mapping(node: object) -> bool:
    """Whether a node is a mapping."""
    return isinstance(node, MappingNode)
