"""Hot reload: changed files in, swapped plugins out, and nothing lost on the way.

    roots      which files count
    hooks, source, static, uses, order, record, view, graph
               who imports whom, and the reading of sources past all caches
    stage, staged, blame, errors
               new modules beside the old
    plugins, plan, versions, exchange, reloader
               which fibers they mean, and the transaction
    snapshot, watch
               what has changed

Contract: section 9.
"""

from .blame import excerpt as excerpt
from .blame import place_of as place_of
from .errors import StagingError as StagingError
from .graph import ImportGraph as ImportGraph
from .plugins import PluginFinder as PluginFinder
from .plugins import find_again as find_again
from .plugins import find_at as find_at
from .plugins import module_of as module_of
from .reloader import Reloaded as Reloaded
from .reloader import Reloader as Reloader
from .roots import Roots as Roots
from .snapshot import Snapshot as Snapshot
from .source import LOOSE as LOOSE
from .source import SourceLoader as SourceLoader
from .source import reading_sources as reading_sources
from .stage import stage as stage
from .staged import Staged as Staged
from .staged import replaced_classes as replaced_classes
from .versions import Versions as Versions
from .watch import Batch as Batch
from .watch import WatchingUnavailableError as WatchingUnavailableError
from .watch import watch as watch
