"""A program that forks itself for each line of JSON it reads: real processes that start at once.

    {"settings": ..., "id": ..., "work": "append" | "hold" | "share"}

Each prints its number first, then what it has done, as soon as it is done and before it goes on.
When it has gone, however it went, `gone` is printed.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import anyio
from harness_plugins import session as plugin
from harness_plugins.llm.api import Message, as_data
from harness_plugins.session import place, store
from harness_plugins.session.api import Draft, Session

from harness_core import Context


def say(*words: object) -> None:
    """Print a line, whole and at once."""
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


async def append(session: Session) -> None:
    """Write batches of 1 to 3 messages for ever, and acknowledge each batch."""
    number = len(session.events)
    while True:
        texts = [f"{number}.{part}" for part in range(number % 3 + 1)]
        drafts = [Draft("message", {"message": as_data(Message("user", text))}) for text in texts]
        await session.append_all(drafts)
        say("acknowledged", session.events[-1].seq)
        number = len(session.events)


async def work(task: dict[str, Any]) -> None:
    """Do what a line says."""
    async with Context() as root:
        await root.plugin(plugin, task["settings"])
        if task["work"] == "share":
            for turn in range(6):
                session = await root.session.open(task["id"], wait=60)
                for part in range(3):
                    await session.append("mine", who=os.getpid(), turn=turn, part=part)
                await session.close()
            return
        session = await root.session.open(task["id"])
        say("opened", len(session.events))
        if task["work"] == "append":
            await append(session)
        await anyio.sleep_forever()


def main() -> None:
    """Read lines until there are no more."""
    for url in ("sqlite:///unused", "postgresql://unused"):
        # Loads the drivers before the first fork, so that children start at once.
        store.Store(place.find_place(Path(), url, None), 1)
    say("ready")
    for line in sys.stdin:
        task = json.loads(line)
        children: list[int] = []
        for _ in range(task.get("count", 1)):
            child = os.fork()
            if child == 0:
                try:
                    anyio.run(work, task)
                finally:
                    os._exit(0)
            children.append(child)
        say("started", *children)
        for child in children:
            os.waitpid(child, 0)
        say("gone")


if __name__ == "__main__":
    main()
