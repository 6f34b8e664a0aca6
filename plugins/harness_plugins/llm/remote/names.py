"""Names of tools and ids of calls, in the letters that a provider takes, and back."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable

from ..errors import ModelError

__all__ = ["LONGEST_NAME", "ToolNames", "plain_id"]

LONGEST_NAME = 64
_PLAIN = re.compile(r"[a-zA-Z0-9_-]+")
_OTHER = re.compile(r"[^a-zA-Z0-9_-]+")


def _plain(text: str, longest: int) -> str:
    """Return a text itself if it is plain, else one that only it becomes, and always becomes."""
    if len(text) <= longest and _PLAIN.fullmatch(text):
        return text
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    readable = _OTHER.sub("_", text)[: longest - len(digest) - 1]
    return f"{readable}_{digest}"


def plain_id(text: str) -> str:
    """Return the id of a call in letters, digits, `_` and `-`: some providers take no others."""
    return _plain(text, LONGEST_NAME)


class ToolNames:
    """The names of one request's tools: as they are here, and as the provider sees them.

    Letters, digits, `_` and `-`, at most 64 of them, stay as they are. Any other name becomes a
    readable one with a part of its hash, the same in every request, and is translated back.
    """

    def __init__(self, names: Iterable[str], provider: str) -> None:
        self._originals: dict[str, str] = {}
        for name in names:
            sent = self.sent(name)
            other = self._originals.setdefault(sent, name)
            if other != name:
                raise ModelError(
                    f'the tools "{other}" and "{name}" are both "{sent}" for this provider, which '
                    "takes only letters, digits, _ and - in names: rename one of them",
                    kind="invalid-request",
                    provider=provider,
                )

    def sent(self, name: str) -> str:
        """Return the name that the provider sees."""
        return _plain(name, LONGEST_NAME)

    def original(self, sent: str) -> str:
        """Return the name that the tool has here; a name that nobody has stays as it came."""
        return self._originals.get(sent, sent)
