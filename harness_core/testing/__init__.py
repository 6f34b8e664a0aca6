"""The testing kit: a live tree for tests, proof that nothing stays behind, a clock that jumps.

The pytest plugin `harness_core.testing.pytest_plugin` adds the fixture `app`; everything else
works under any test runner. pytest imports this package in every run in which it is installed, so
each name is imported when it is first asked for. Contract: section 11.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .check import InjectedFailure as InjectedFailure
    from .check import PluginCheckError as PluginCheckError
    from .check import PluginReport as PluginReport
    from .check import Run as Run
    from .check import check_plugin as check_plugin
    from .checkpoints import Checkpoints as Checkpoints
    from .checkpoints import count_checkpoints as count_checkpoints
    from .clock import VirtualClockLoop as VirtualClockLoop
    from .clock import run_with_virtual_clock as run_with_virtual_clock
    from .host import TreeHost as TreeHost
    from .records import Ledger as Ledger
    from .records import ledger as ledger
    from .residue import ResidueCheck as ResidueCheck
    from .residue import ResidueError as ResidueError
    from .residue import assert_no_residue as assert_no_residue
    from .snapshot import Residue as Residue
    from .snapshot import Snapshot as Snapshot
    from .snapshot import observe as observe

_HOMES = {
    "InjectedFailure": "check",
    "PluginCheckError": "check",
    "PluginReport": "check",
    "Run": "check",
    "check_plugin": "check",
    "Checkpoints": "checkpoints",
    "count_checkpoints": "checkpoints",
    "VirtualClockLoop": "clock",
    "run_with_virtual_clock": "clock",
    "TreeHost": "host",
    "Ledger": "records",
    "ledger": "records",
    "Residue": "snapshot",
    "Snapshot": "snapshot",
    "observe": "snapshot",
    "ResidueCheck": "residue",
    "ResidueError": "residue",
    "assert_no_residue": "residue",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{home}"), name)


def __dir__() -> list[str]:
    return sorted(_HOMES)
