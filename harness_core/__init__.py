"""Harness Core: agent harnesses made of plugins. The public door; nothing else stands here.

`harness_core.prompt` is the door of the system prompt, `harness_core.errors` that of errors,
`harness_core.testing` that of the testing kit.
"""

from .kernel.containers import mount_container as mount_container
from .kernel.context import Context as Context
from .kernel.context import override as override
from .kernel.effects import Effect as Effect
from .kernel.effects import EffectInfo as EffectInfo
from .kernel.fiber import Fiber as Fiber
from .kernel.lifecycle import FiberState as FiberState
from .kernel.listeners import Event as Event
from .kernel.plugin import inject as inject
from .kernel.service import Service as Service
from .scopes import AnonymousEntries as AnonymousEntries
from .scopes import NamedEntries as NamedEntries
from .scopes import Scope as Scope
from .scopes import ScopeBinding as ScopeBinding
from .scopes import ScopedLayers as ScopedLayers
from .scopes import ScopeTarget as ScopeTarget
from .scopes import bind_scope_parent as bind_scope_parent
from .scopes import create_scope as create_scope
from .scopes import scope_chain_of as scope_chain_of
from .scopes import scope_of as scope_of
from .scopes import scope_parent_of as scope_parent_of
from .scopes import scope_target as scope_target
