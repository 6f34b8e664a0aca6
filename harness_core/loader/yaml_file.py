"""Reading a YAML file into plain data with places; every fault is a ManifestError with its own.

Accepts a byte-order mark and CRLF. Refuses what plain data cannot be: tags, aliases that hold
themselves, or that multiply beyond reason.
"""

from __future__ import annotations

import datetime
import warnings
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq, TaggedScalar
from ruamel.yaml.error import MarkedYAMLError
from ruamel.yaml.reader import ReaderError
from ruamel.yaml.scalarbool import ScalarBoolean

from ..errors import ManifestError
from .places import LocatedDict, LocatedList, Place
from .yaml_structure import Structure

__all__ = ["parse_yaml", "read_text"]

MAX_NODES = 200_000
"""More values than this, with aliases written out, is no configuration any more."""


def read_text(path: Path, shown: str) -> str:
    """Return the text of a UTF-8 file, without byte-order mark and with plain line ends."""
    if path.is_dir():
        raise ManifestError("this is a directory: expected a YAML file", file=shown)
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        raise ManifestError("there is no such file", file=shown) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ManifestError(f"cannot be read: {reason}", file=shown) from error
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        good = raw[: error.start]
        line = good.count(b"\n") + 1
        column = len(good.rpartition(b"\n")[2].decode("utf-8-sig", "replace")) + 1
        message = f"not UTF-8: byte 0x{raw[error.start]:02x}. Save the file as UTF-8"
        raise ManifestError(message, file=shown, line=line, column=column) from None
    return text.replace("\r\n", "\n")


def parse_yaml(text: str, shown: str) -> Any:
    """Return the data of a YAML text. Raises ManifestError."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an anchor that is used again is no fault
            _check_structure(text, shown)
            parser: Any = YAML(typ="rt", pure=True)
            node: Any = parser.load(text)
        return _Reader(shown).read(node, Place(shown, 1, 1))
    except MarkedYAMLError as error:
        raise _marked(error, shown) from None
    except ReaderError as error:
        raise _unreadable(error, text, shown) from None
    except ManifestError:
        raise
    except Exception as error:  # the parser trips over some inputs in ways of its own
        raise ManifestError(f"not YAML: {error}", file=shown) from error


def _check_structure(text: str, shown: str) -> None:
    """Refuse what the parser would trip over, silently make empty, or expand beyond reason."""
    parser: Any = YAML(typ="rt", pure=True)
    structure = Structure(shown)
    for event in parser.parse(text):
        structure.check(event)


def _marked(error: Any, shown: str) -> ManifestError:
    mark = error.problem_mark or error.context_mark
    message = f"not YAML: {error.problem or error.context or error}"
    if error.problem and error.context:
        message += f" ({error.context})"
    if mark is None:
        return ManifestError(message, file=shown)
    return ManifestError(message, file=shown, line=mark.line + 1, column=mark.column + 1)


def _unreadable(error: Any, text: str, shown: str) -> ManifestError:
    before = text[: error.position]
    code = error.character if isinstance(error.character, int) else ord(error.character)
    return ManifestError(
        f"not YAML: the character U+{code:04X} is not allowed",
        file=shown,
        line=before.count("\n") + 1,
        column=len(before.rpartition("\n")[2]) + 1,
    )


class _Reader:
    """Turns the parser's nodes into located plain data."""

    def __init__(self, shown: str) -> None:
        self.shown = shown
        self.count = 0

    def read(self, node: Any, place: Place) -> Any:
        self.count += 1
        if self.count > MAX_NODES:
            raise place.fault("too many values: aliases multiply what they stand for")
        if isinstance(node, CommentedMap | CommentedSeq):
            self._refuse_tag(node, place)
            read = self._mapping if isinstance(node, CommentedMap) else self._sequence
            return read(node, place)
        return self._scalar(node, place)

    def _refuse_tag(self, node: Any, place: Place) -> None:
        tag = getattr(node, "tag", None)
        name = getattr(tag, "value", tag)
        if name:
            raise place.fault(f"the tag {name!r} is not supported: write plain values")

    def _mapping(self, node: Any, place: Place) -> LocatedDict:
        data = LocatedDict(place)
        for key, value in node.items():
            try:
                key_at = self._at(node.lc.key(key))
                value_at = self._at(node.lc.value(key))
            except (KeyError, TypeError, AttributeError):
                key_at = value_at = place  # merged in from elsewhere with `<<`
            if value is None:
                value_at = key_at
            plain = self._scalar(key, key_at)
            data[plain] = self.read(value, value_at)
            data.keys_at[plain] = key_at
            data.values_at[plain] = value_at
        return data

    def _sequence(self, node: Any, place: Place) -> LocatedList:
        data = LocatedList(place)
        for index, value in enumerate(node):
            at = self._at(node.lc.item(index))
            data.append(self.read(value, at))
            data.items_at.append(at)
        return data

    def _at(self, position: tuple[int, int]) -> Place:
        line, column = position
        return Place(self.shown, line + 1, column + 1)

    def _scalar(self, node: Any, place: Place) -> Any:
        if isinstance(node, TaggedScalar):
            self._refuse_tag(node, place)
        if node is None or isinstance(node, bool):
            return node
        if isinstance(node, ScalarBoolean):
            return bool(node)
        for kind in (str, int, float):
            if isinstance(node, kind):
                return kind(node)
        if isinstance(node, datetime.date):
            return node
        raise place.fault(f"expected plain values, got {type(node).__name__}")
