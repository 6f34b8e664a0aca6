"""What adapters over HTTP share: settings, keys, deadlines, errors, names and schemas of tools.

Reading order: settings, keys; names, schemas; faults, headers, transport; adapter. Other plugins
import `harness_plugins.llm.remote.api`.
"""
