"""jurigged: its own watcher patches functions and values in place.

It changes code and runs no plugin again. In its favour its hooks are used for that: what plugins
have set up is taken down before a file is refreshed, and all bodies run again afterwards, also
when the refresh has failed.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from threading import RLock
from typing import Any

from benchmarks.reload_matrix.host import Host

__all__ = ["Adapter"]

jurigged: Any = importlib.import_module("jurigged")
registry: Any = importlib.import_module("jurigged.register").registry


class Adapter:
    async def start(self, directory: Path, plugins: tuple[str, ...]) -> None:
        self._lock = RLock()
        watcher = jurigged.watch(
            pattern=lambda file: str(file).startswith(f"{directory}/"),
            logger=self._log,
            autostart=False,
        )
        watcher.prerun.register(self._before)
        watcher.postrun.register(self._after)
        for name in plugins:
            importlib.import_module(name)
        self._host = Host(plugins)
        self._host.run()
        watcher.start()
        assert registry.precache, "jurigged does not follow the files"

    def _before(self, path: str, code: object) -> None:
        del path, code
        with self._lock:
            self._host.take_down()

    def _after(self, path: str, code: object) -> None:
        del path, code
        with self._lock:
            self._host.take_down()
            self._host.run()

    def _log(self, event: object) -> None:
        if isinstance(event, SyntaxError):
            with self._lock:
                self._host.run()

    async def saved(self) -> None:
        pass

    async def prompt(self) -> tuple[str, ...]:
        with self._lock:
            return self._host.prompt()
