"""The testing kit: a live tree for tests, proof that nothing stays behind, a clock that jumps.

The pytest plugin `harness_core.testing.pytest_plugin` adds the fixture `app`; everything else
works under any test runner. Contract: section 11.
"""

from .check import InjectedFailure as InjectedFailure
from .check import PluginReport as PluginReport
from .check import Run as Run
from .check import check_plugin as check_plugin
from .checkpoints import Checkpoints as Checkpoints
from .checkpoints import count_checkpoints as count_checkpoints
from .clock import VirtualClockLoop as VirtualClockLoop
from .clock import run_with_virtual_clock as run_with_virtual_clock
from .host import TreeHost as TreeHost
from .ledger import Ledger as Ledger
from .ledger import ledger as ledger
from .observe import Residue as Residue
from .observe import Snapshot as Snapshot
from .observe import observe as observe
from .residue import ResidueCheck as ResidueCheck
from .residue import ResidueError as ResidueError
from .residue import assert_no_residue as assert_no_residue
