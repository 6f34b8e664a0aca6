"""What of a server's offer is registered at the moment: the difference is what changes.

A tool that stays as it is stays registered; one that has changed is replaced without a pause in
which an assembly could miss it; one that cannot be registered is left out and reported, once.
"""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Iterator
from fnmatch import fnmatchcase
from typing import TypeAlias

import attrs
from mcp import types

from harness_core import Context, Effect
from harness_core.errors import InactiveFiberError, InvalidNameError
from harness_core.prompt import SystemPrompt
from harness_plugins.tools.api import Tool, Tools
from harness_plugins.workspace.api import one_line

from .config import ServerConfig
from .connection import Connection
from .content import truncated
from .offer import Offer, ServerError

__all__ = ["Shelf"]

_TOOL_NAME = re.compile(r"[A-Za-z0-9._-]{1,128}")
_READ_TIMEOUT = 10.0
"""Seconds for the text of a context, for a server whose calls have no limit of their own."""

Key: TypeAlias = tuple[str, str]
"""Kind and name."""


@attrs.frozen
class _Wanted:
    """Something to register: what tells whether it is the same as before, and how it is done.

    `prepare` does what can fail without touching anything, and returns the rest, which takes the
    effect of what it stands in for, or None.
    """

    facts: str
    prepare: Callable[[], Callable[[Effect | None], Effect]]


@attrs.frozen
class _Registered:
    facts: str
    effect: Effect


class Shelf:
    """The registrations of one server's fiber."""

    def __init__(self, ctx: Context, server: str, config: ServerConfig) -> None:
        self._ctx = ctx
        self._server = server
        self._config = config
        self._registered: dict[Key, _Registered] = {}
        self._complaints: dict[Key, str] = {}

    def show(self, connection: Connection, offer: Offer) -> None:
        """Make what is registered match an offer. Raises InactiveFiberError if it is too late."""
        faults: dict[Key, Exception] = {}
        for fault in offer.faults:
            what = f'lists a tool "{fault.name}" that is none'
            if fault.kind == "list":
                what = f"does not list its {fault.name}"
            faults[fault.kind, fault.name] = ServerError(
                f'server "{self._server}" {what}: {fault.problem}'
            )
        wanted: dict[Key, _Wanted] = {}
        for key, one in self._wanted(connection, offer):
            if key in wanted:
                faults[key] = ServerError(
                    f'server "{self._server}" lists {key[0]} "{key[1]}" twice: the first stands'
                )
            else:
                wanted[key] = one
        for key in self._registered.keys() - wanted.keys():
            self._take_back(key)
        for key, one in wanted.items():
            error = self._put(key, one)
            if error is not None:
                faults[key] = error
        self._complain(faults)

    def clear(self) -> None:
        """Take everything back: the server has gone."""
        for key in list(self._registered):
            self._take_back(key)

    def _put(self, key: Key, wanted: _Wanted) -> Exception | None:
        """Register what is not registered like this; return what is wrong with it."""
        held = self._registered.get(key)
        if held is not None and held.facts == wanted.facts:
            return None
        try:
            register = wanted.prepare()
        except Exception as error:
            if held is not None:
                self._take_back(key)
            return error
        try:
            effect = register(held.effect if held is not None else None)
            self._registered[key] = _Registered(wanted.facts, effect)
        except InactiveFiberError:
            raise
        except Exception as error:
            if held is not None:
                self._take_back(key)
            return error
        return None

    def _take_back(self, key: Key) -> None:
        self._registered.pop(key).effect()

    def _complain(self, faults: dict[Key, Exception]) -> None:
        """Report the faults that are new; a list that comes each second says them once."""
        for key, fault in faults.items():
            if self._complaints.get(key) != str(fault):
                self._ctx.fiber.report(fault, f'{key[0]} "{key[1]}" of server "{self._server}"')
        self._complaints = {key: str(fault) for key, fault in faults.items()}

    # What is wanted

    def _wanted(self, connection: Connection, offer: Offer) -> Iterator[tuple[Key, _Wanted]]:
        for tool in offer.tools:
            name = self._config.prefix + tool.name
            yield ("tool", name), self._tool(connection, tool, name)
        for resource in offer.resources:
            uri = str(resource.uri)
            if any(
                fnmatchcase(uri, pattern) or fnmatchcase(resource.name, pattern)
                for pattern in self._config.resources
            ):
                yield ("context", self._context_name(uri)), self._resource(connection, resource)
        for prompt in offer.prompts:
            arguments = self._arguments_for(prompt.name)
            if arguments is not None:
                name = self._context_name(prompt.name)
                yield ("context", name), self._prompt(connection, prompt, arguments)

    def _context_name(self, name: str) -> str:
        return f"mcp:{self._server}:{name}"

    def _arguments_for(self, prompt: str) -> dict[str, str] | None:
        prompts = self._config.prompts
        if prompt in prompts:
            return prompts[prompt]
        return next((prompts[one] for one in prompts if fnmatchcase(prompt, one)), None)

    def _tool(self, connection: Connection, tool: types.Tool, name: str) -> _Wanted:
        config = self._config
        description = tool.description or tool.title or ""
        only_reads = bool(tool.annotations and tool.annotations.read_only_hint)
        parallel = config.parallel if config.parallel is not None else only_reads

        def prepare() -> Callable[[Effect | None], Effect]:
            if not tool.name or not _TOOL_NAME.fullmatch(name):
                raise InvalidNameError(
                    tool.name, of="tool", expected="1 to 128 letters, digits, `_`, `-` and `.`"
                )

            async def run(arguments: dict[str, object]) -> object:
                return await connection.call(tool.name, arguments)

            made = Tool(
                name,
                description,
                tool.input_schema,
                run=run,
                timeout=config.call_timeout,
                parallel=parallel,
                max_output=config.max_output,
            )
            return lambda held: self._register(made, held)

        return _Wanted(_facts(description, tool.input_schema, parallel), prepare)

    def _register(self, tool: Tool, held: Effect | None) -> Effect:
        tools = self._ctx[Tools]
        if held is None:
            return tools.register(tool)
        tools.replace(held, tool)
        return held

    def _resource(self, connection: Connection, resource: types.Resource) -> _Wanted:
        uri = str(resource.uri)
        title = resource.title or resource.name

        async def text() -> str:
            return await connection.read(uri)

        return self._context(uri, f"{title} ({uri})", text, _facts(title))

    def _prompt(
        self, connection: Connection, prompt: types.Prompt, arguments: dict[str, str]
    ) -> _Wanted:
        missing = [
            one.name for one in prompt.arguments or () if one.required and one.name not in arguments
        ]

        async def text() -> str:
            return await connection.prompt(prompt.name, arguments)

        return self._context(prompt.name, f"prompt {prompt.name}", text, _facts(missing), missing)

    def _context(
        self,
        name: str,
        title: str,
        text: Callable[[], Awaitable[str]],
        facts: str,
        missing: list[str] | None = None,
    ) -> _Wanted:
        config = self._config
        limit = config.max_output or self._ctx[Tools].config.max_output

        async def limited() -> str:
            return truncated(self._quoted(title, await text()), limit)

        def prepare() -> Callable[[Effect | None], Effect]:
            if missing:
                raise ServerError(
                    f'prompt "{name}" of server "{self._server}" needs the arguments '
                    f"{', '.join(missing)}: give them in `prompts`"
                )

            def register(held: Effect | None) -> Effect:
                if held is not None:
                    held()
                return self._ctx[SystemPrompt].context(
                    self._context_name(name),
                    limited,
                    order=config.order,
                    literal=True,
                    optional=True,
                    timeout=config.call_timeout or _READ_TIMEOUT,
                )

            return register

        return _Wanted(facts, prepare)

    def _quoted(self, title: str, text: str) -> str:
        """Return a text with a mark before each line: none of it can pass for somebody else's."""
        lines = "\n".join(f"| {line}".rstrip() for line in text.splitlines())
        return f"From the MCP server {one_line(self._server)}, {one_line(title)}:\n{lines}"


def _facts(*facts: object) -> str:
    """Return what tells two offers apart: all of it, and not the order of keys."""
    return json.dumps(facts, sort_keys=True)
