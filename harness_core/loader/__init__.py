"""The loader: from `harness.yaml` to mounted plugins.

Reading order: manifest, resolve, mount; then plan, prepare, reconcile, loader.
"""

from .blame import is_plugin_code as is_plugin_code
from .blame import raised_at as raised_at
from .errors import ReconcileError as ReconcileError
from .loader import Loader as Loader
from .manifest import Entry as Entry
from .manifest import Manifest as Manifest
from .manifest import read_manifest as read_manifest
from .mounted import MountedEntry as MountedEntry
from .mounted import fault_of as fault_of
from .mounted import provided_by as provided_by
from .places import Place as Place
from .places import as_dict as as_dict
from .places import as_list as as_list
from .places import place_at as place_at
from .places import plain as plain
from .places import shown_path as shown_path
from .plan import Change as Change
from .plan import Plan as Plan
from .resolve import Resolver as Resolver
from .resolve import entry_points as entry_points
from .settle import settle as settle
from .settle import walk_fibers as walk_fibers
from .waiting import Waiting as Waiting
from .waiting import find_waiting as find_waiting
from .wrapped import unwrapped as unwrapped
from .wrapped import wrapped as wrapped
from .yaml_file import parse_yaml as parse_yaml
