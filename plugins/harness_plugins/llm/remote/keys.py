"""Keys: read when they are needed, from the environment or a named file, and never kept."""

from __future__ import annotations

import os

import anyio
import attrs

from ..errors import ModelError
from .settings import RemoteConfig

__all__ = ["Key", "KeySource", "key_source"]

_SHORTEST_SECRET = 6


@attrs.frozen(repr=False)
class Key:
    """A key, for the length of one request. It does not show itself, in a traceback neither."""

    value: str

    def __repr__(self) -> str:
        return "<key>"

    def hidden_in(self, text: str) -> str:
        """Return a text of somebody else's without the key, should it repeat it."""
        return text.replace(self.value, "[key]") if len(self.value) >= _SHORTEST_SECRET else text


@attrs.frozen
class KeySource:
    """Where the key of a provider is. `variable` and `file` are both None where none is used."""

    provider: str
    variable: str | None = None
    file: str | None = None
    is_required: bool = True

    async def read(self) -> Key | None:
        """Return the key as it is now; None if none is to be sent.

        Raises ModelError of kind "authentication" that says where a key was looked for.
        """
        if self.file is not None:
            return self._checked(await self._read_file(self.file), f"the file {self.file}")
        if self.variable is None:
            return None
        if key := os.environ.get(self.variable, "").strip():
            return self._checked(Key(key), f"the environment variable {self.variable}")
        if not self.is_required:
            return None
        raise self._missing(
            f"no key: the environment variable {self.variable} is not set. Set it, or name another "
            "one with key_env, or a file with key_file"
        )

    async def _read_file(self, file: str) -> Key:
        problem = "it is empty"
        try:
            if key := (await anyio.Path(file).read_text(encoding="utf-8-sig")).strip():
                return Key(key)
        except OSError as error:
            problem = error.strerror or type(error).__name__
        except UnicodeDecodeError:
            problem = "it is no UTF-8 text"
        raise self._missing(f"no key: the file {file} (key_file) gives none: {problem}")

    def _checked(self, key: Key, where: str) -> Key:
        # A blank or a line end in a header would be reported by others, with the key.
        if key.value.isascii() and key.value.isprintable() and " " not in key.value:
            return key
        raise self._missing(
            f"the key in {where} is none: expected one line of ASCII letters, digits and marks"
        )

    def _missing(self, message: str) -> ModelError:
        return ModelError(message, kind="authentication", provider=self.provider)


def key_source(config: RemoteConfig, default: str, directory: str) -> KeySource:
    """Return where the key of an adapter is; `default` is its usual environment variable.

    A relative `key_file` starts at `directory`. With a `base_url` and nothing said of keys, a
    server may want none, so a missing variable is no error.
    """
    if config.key_file is not None:
        return KeySource(config.provider, file=os.path.join(directory, config.key_file))
    if config.key_env is None:
        return KeySource(config.provider, default, is_required=config.base_url is None)
    return KeySource(config.provider, config.key_env or None)
