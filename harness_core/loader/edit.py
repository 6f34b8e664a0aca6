"""Edits: changes of the manifest's file that keep comments, order and layout.

References to environment variables stay what they are: where a new config has the value that a
reference stands for, the reference is kept. The file is replaced atomically.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..errors import ManifestError, closest
from .manifest import Entry, Manifest
from .places import as_dict, as_list, plain
from .plan import same
from .yaml_edit import YamlText, is_mapping
from .yaml_file import parse_yaml, read_text

__all__ = ["Edit"]


class Edit:
    """One change of a manifest's file under way."""

    def __init__(self, manifest: Manifest) -> None:
        self.path = Path(os.path.realpath(manifest.path))
        read_text(self.path, manifest.file)  # says what is wrong with the file
        self._read = self.path.read_bytes()
        raw = self._read.decode("utf-8")
        self.mark = "\ufeff" if raw.startswith("\ufeff") else ""
        self.text = raw.removeprefix("\ufeff")
        self.base = manifest
        self._temporary: str | None = None

    @property
    def manifest(self) -> Manifest:
        """The manifest as it is with the changes; raises ManifestError."""
        return self.base.parse(self.text.replace("\r\n", "\n"))

    # Changing

    def set(self, one: str, key: str, value: object) -> None:
        """Give a row a key."""
        yaml, row = self._row(one)
        self.text = yaml.set_key(row, key, value)

    def set_config(self, one: str, config: Mapping[str, Any]) -> None:
        """Give a row another config, keeping what is the same as it is written."""
        entry = self._entry(one)
        if entry.group:
            raise ValueError(f'row "{one}" is a group: its config is its rows')
        resolved = plain(entry.config)
        wanted = plain(_copied(config))
        raw = self._raw_config(one)
        restored = resolved if same(resolved, wanted) else _restored(raw, resolved, wanted)
        if restored is resolved:
            return
        for _ in range(10_000):
            yaml, row = self._row(one)
            text = _step(yaml, row, "config", self._raw_config(one), restored)
            if text is None:
                return
            self.text = text

    def add(self, row: Mapping[str, Any], group: str | None) -> None:
        """Add a row at the end of the file, or of a group."""
        data = plain(_copied(row))
        if group is None:
            yaml = YamlText(self.text)
            self.text = yaml.with_item(yaml.root, data)
            return
        if not self._entry(group).group:
            raise ValueError(f'row "{group}" is no group')
        yaml, node = self._row(group)
        pair = yaml.key(node, "config")
        if pair is None or not hasattr(pair[1], "flow_style") or not pair[1].value:
            self.text = yaml.set_key(node, "config", [data])
        else:
            self.text = yaml.with_item(pair[1], data)

    def remove(self, one: str) -> None:
        """Take a row out."""
        yaml, (sequence, index) = self._seat(one)
        self.text = yaml.without_item(sequence, index)

    # Looking

    def _entry(self, one: str) -> Entry:
        known = {entry.id: entry for entry in self.manifest.walk()}
        if one not in known:
            guess = closest(one, known)
            hint = f'; did you mean "{guess}"?' if guess else ""
            rows = ", ".join(known) or "(none)"
            raise LookupError(f'{self.base.file} has no row "{one}"{hint} (rows: {rows})')
        return known[one]

    def _seat(self, one: str) -> tuple[YamlText, tuple[Any, int]]:
        """Return the text, and the list and number of a row in it."""
        self._entry(one)
        yaml = YamlText(self.text)
        found = _find(yaml, yaml.root, one)
        if found is None:
            place = self._entry(one).place
            raise ManifestError(
                f'row "{one}" is written with an alias or a merge, and has to be edited by hand',
                file=place.file,
                line=place.line,
                column=place.column,
            )
        return yaml, found

    def _row(self, one: str) -> tuple[YamlText, Any]:
        yaml, (sequence, index) = self._seat(one)
        return yaml, sequence.value[index]

    def _raw_config(self, one: str) -> Any:
        def search(rows: Any) -> Any:
            for row in as_list(rows) or ():
                if (row.get("id") or row.get("name") or "group") == one:
                    return (row,)
                found = search(row.get("config")) if row.get("group") else None
                if found:
                    return found
            return None

        (row,) = search(parse_yaml(self.text.replace("\r\n", "\n"), self.base.file))
        return plain(row.get("config"))

    # Writing

    def prepare(self) -> None:
        """Write the new text beside the file."""
        mode = self.path.stat().st_mode & 0o7777
        number, self._temporary = tempfile.mkstemp(
            prefix=f".{self.path.name}.", suffix=".tmp", dir=self.path.parent
        )
        with os.fdopen(number, "wb") as file:
            file.write((self.mark + self.text).encode())
            file.flush()
            os.fsync(file.fileno())
        os.chmod(self._temporary, mode)

    @property
    def is_current(self) -> bool:
        """Whether the file still holds what was edited: somebody may have saved it meanwhile."""
        return self.path.read_bytes() == self._read

    def commit(self) -> None:
        """Put the new text in the place of the file, in one step."""
        assert self._temporary is not None
        os.replace(self._temporary, self.path)
        self._temporary = None
        with contextlib.suppress(OSError):  # not everywhere can a directory be opened
            number = os.open(self.path.parent, os.O_RDONLY)
            try:
                os.fsync(number)
            finally:
                os.close(number)

    def discard(self) -> None:
        """Remove what `prepare` has written, if it is still there."""
        if self._temporary is not None:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._temporary)


def _copied(value: Any) -> Any:
    """Return a value in plain dicts and lists."""
    if isinstance(value, Mapping):
        return {key: _copied(one) for key, one in _items(value)}
    return _copied_items(value) if isinstance(value, list | tuple) else value


def _copied_items(items: Any) -> list[Any]:
    return [_copied(one) for one in items]


def _items(mapping: Any) -> list[tuple[Any, Any]]:
    return list(mapping.items())


def _find(yaml: YamlText, sequence: Any, one: str) -> tuple[Any, int] | None:
    rows: list[Any] = sequence.value or []
    for index, row in enumerate(rows):
        begin, end = sequence.start_mark.index, sequence.end_mark.index
        if not begin <= row.start_mark.index < end or not is_mapping(row):
            continue  # an alias, which stands elsewhere
        texts: dict[str, Any] = {pair[0].value: pair[1] for pair in row.value}
        own = next((texts[key].value for key in ("id", "name") if key in texts), "group")
        if own == one:
            return sequence, index
        if getattr(texts.get("group"), "value", "") == "true" and "config" in texts:
            found = _find(yaml, texts["config"], one)
            if found is not None:
                return found
    return None


def _restored(raw: Any, resolved: Any, wanted: Any) -> Any:
    """Return `wanted` with what is as resolved written as it was before resolving."""
    if same(resolved, wanted):
        return raw
    mappings = as_dict(raw), as_dict(resolved), as_dict(wanted)
    if all(one is not None for one in mappings):
        before, now, after = (one or {} for one in mappings)
        return {
            key: _restored(before[key], now[key], value) if key in before and key in now else value
            for key, value in after.items()
        }
    lists = as_list(raw), as_list(resolved), as_list(wanted)
    if all(one is not None for one in lists):
        before_items, now_items, after_items = (one or [] for one in lists)
        pairs = list(zip(before_items, now_items, strict=True))
        return [next((old for old, new in pairs if same(new, item)), item) for item in after_items]
    return wanted


def _step(yaml: YamlText, mapping: Any, key: str, old: Any, new: Any) -> str | None:
    """Return the text one change nearer to `new`, or None if it is there."""
    if same(old, new):
        return None
    pair = yaml.key(mapping, key)
    inner, wanted = as_dict(old), as_dict(new)
    if pair is None or inner is None or not wanted or not hasattr(pair[1], "flow_style"):
        return yaml.set_key(mapping, key, new)
    if not inner or pair[1].start_mark.index < pair[0].start_mark.index:
        return yaml.set_key(mapping, key, new)
    for one in wanted:
        if one not in inner:
            return yaml.set_key(pair[1], one, wanted[one])
        text = _step(yaml, pair[1], one, inner[one], wanted[one])
        if text is not None:
            return text
    gone = next(one for one in inner if one not in wanted)
    return yaml.without_key(pair[1], gone)
