"""`importlib.reload` by hand, with care.

After a save: take down what plugins have set up, reload every module of the project in the order
of `sys.modules`, in which helpers come before their users, then run all bodies again. A module
whose file is gone is passed over. At another error the reloading stops there.
"""

from __future__ import annotations

import importlib
import sys
import traceback
from pathlib import Path

from benchmarks.reload_matrix.host import Host

__all__ = ["Adapter"]


class Adapter:
    async def start(self, directory: Path, plugins: tuple[str, ...]) -> None:
        self._directory = directory
        for name in plugins:
            importlib.import_module(name)
        self._host = Host(plugins)
        self._host.run()

    async def saved(self) -> None:
        self._host.take_down()
        try:
            self._reload()
        except Exception:
            traceback.print_exc()
        try:
            self._host.run()
        except Exception:
            traceback.print_exc()

    def _reload(self) -> None:
        importlib.invalidate_caches()
        for name, module in tuple(sys.modules.items()):
            file = getattr(module, "__file__", None) or ""
            if not file.startswith(f"{self._directory}/"):
                continue
            try:
                importlib.reload(module)
            except ModuleNotFoundError as error:
                if error.name != name:
                    raise

    async def prompt(self) -> tuple[str, ...]:
        return self._host.prompt()
