"""Scopes: where a registration is seen. Keys, parent chains, targets, and layered storage."""

from .keys import ScopeBinding as ScopeBinding
from .keys import bind_scope_parent as bind_scope_parent
from .keys import scope_chain_of as scope_chain_of
from .keys import scope_parent_of as scope_parent_of
from .layers import AnonymousEntries as AnonymousEntries
from .layers import NamedEntries as NamedEntries
from .layers import ScopedLayers as ScopedLayers
from .scope import Scope as Scope
from .scope import ScopeTarget as ScopeTarget
from .scope import create_scope as create_scope
from .scope import scope_of as scope_of
from .scope import scope_target as scope_target
