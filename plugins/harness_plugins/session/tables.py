"""The tables of the store. The same on SQLite and on PostgreSQL."""

from __future__ import annotations

from sqlalchemy import Column, Integer, MetaData, Table, Text

__all__ = ["VERSION", "events", "metadata", "schema", "sessions"]

VERSION = 1
"""Of what stands below. A store that says more was made by a later release."""

metadata = MetaData()

schema = Table("harness_schema", metadata, Column("version", Integer, primary_key=True))

sessions = Table(
    "harness_sessions",
    metadata,
    Column("id", Text, primary_key=True),
    # Names and titles are the inside of a JSON string, as PostgreSQL takes no NUL in a text.
    Column("agent", Text, nullable=True),
    Column("title", Text, nullable=True),
    Column("created_at", Text, nullable=False),
    # Of the log as a whole; changed in the transaction that writes events.
    Column("last_at", Text, nullable=True),
    Column("events", Integer, nullable=False),
    Column("messages", Integer, nullable=False),
    # Who writes: whoever finds another one here has lost the session.
    Column("holder", Text, nullable=True),
)

events = Table(
    "harness_events",
    metadata,
    Column("session", Text, primary_key=True),
    Column("seq", Integer, primary_key=True, autoincrement=False),
    Column("kind", Text, nullable=False),
    Column("at", Text, nullable=False),
    Column("data", Text, nullable=False),
)
