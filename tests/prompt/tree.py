"""A live tree with a system prompt in it, and nothing else."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from harness_core import Context
from harness_core.prompt import PromptAssembly, SystemPrompt, render_prompt

ASSEMBLE = "system-prompt/assemble"
Next = Callable[[], Awaitable[PromptAssembly]]


class Key:
    """A scope key with a name."""

    def __init__(self, name: str = "key") -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"<{self.name}>"


@asynccontextmanager
async def live(**config: Any) -> AsyncIterator[tuple[Context, SystemPrompt]]:
    """Open a tree with a `SystemPrompt` that contributes no text of its own."""
    config.setdefault("include_harness_identity", False)
    async with Context() as root:
        await root.plugin(SystemPrompt, config)
        yield root, root[SystemPrompt]


async def rendered(sp: SystemPrompt, scope: object = None, **fields: Any) -> str:
    """Assemble and render the system prompt."""
    return render_prompt(await sp.assemble(scope=scope, **fields))


def injecting(body: Callable[[Context], Any]) -> Callable[[Context], Any]:
    """Let a plugin function wait for the system prompt."""
    body.inject = ["system_prompt"]  # type: ignore[attr-defined]
    return body


def names(items: list[Any]) -> list[str]:
    """Return the names of assembled parts, without the built-in persona."""
    return [item.name for item in items if item.name != "deployment:persona"]


def texts(assembly: PromptAssembly) -> list[str]:
    """Return the rendered sections."""
    return render_prompt(assembly).split("\n\n")
