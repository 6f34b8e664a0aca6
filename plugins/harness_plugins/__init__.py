"""First-party plugins, each a worked example of the public API."""

PARTS = frozenset({"chat", "llm"})
"""The packages here that are no plugins: a command, and what model adapters share."""
