"""The loader: from `harness.yaml` to mounted plugins. Reading order: manifest, resolve, mount."""

from .blame import is_plugin_code as is_plugin_code
from .blame import raised_at as raised_at
from .manifest import Entry as Entry
from .manifest import Manifest as Manifest
from .manifest import read_manifest as read_manifest
from .mount import Loader as Loader
from .mount import MountedEntry as MountedEntry
from .places import as_dict as as_dict
from .places import shown_path as shown_path
from .resolve import Resolver as Resolver
from .settle import settle as settle
from .settle import walk_fibers as walk_fibers
from .waiting import Waiting as Waiting
from .waiting import find_waiting as find_waiting
