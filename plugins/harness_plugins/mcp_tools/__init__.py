"""`mcp_tools`: tools, resources and prompts of MCP servers.

    - name: mcp_tools
      config:
        servers:
          time:
            command: python
            args: [-m, mcp_server_time]
          tracker:
            url: https://tracker.example.org/mcp
            headers: {Authorization: "Bearer ${env:TRACKER_TOKEN}"}
            prefix: tracker_

Each server is a child fiber `mcp:NAME`: what it offers is registered there, follows what it says
has changed, goes when it goes, and comes back when it does. A server that does not come up fails
nobody else. All settings are those of `ServerConfig`. Needs the extra `harness-core[mcp]`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness_core import Context, Effect, Fiber
from harness_core.errors import PluginError

from .config import Config, ServerConfig

if TYPE_CHECKING:
    from .server import Server

__all__ = ["Config", "ServerConfig", "apply", "inject", "name"]

name = "mcp_tools"
inject = ["tools", "system_prompt"]


async def apply(ctx: Context, config: Config) -> None:
    """Mount each server, and wait until each has come up or failed to, all at once."""
    if not config.servers:
        return
    servers = _Servers(ctx)
    ctx.on_update(servers.update)
    await servers.mount(config.servers)


class _Servers:
    """The fibers of the servers, by name."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self._fibers: dict[str, Fiber] = {}
        self._ending: Effect | None = None
        loader = ctx.get("loader")
        self._directory = str(loader.directory) if loader is not None else ""

    async def mount(self, servers: dict[str, ServerConfig]) -> None:
        """Mount servers, and wait for the first attempt of each."""
        make = _server_class()
        for server, config in servers.items():
            plugin = make(server, self._directory, config)
            self._fibers[server] = self._ctx.plugin(plugin, config)
        if self._ending is not None:
            self._ending.forget()
        # The newest effect is undone first: servers that are slow to end are so all at once.
        self._ending = self._ctx.effect(lambda: self.end, label="end of all servers")
        for server in servers:
            await self._fibers[server]

    async def end(self) -> None:
        """End all servers at once, and wait until they are gone."""
        for ending in [fiber.dispose() for fiber in self._fibers.values()]:
            await ending

    async def update(self, config: Config) -> bool:
        """Touch only the servers whose settings have changed.

        One that must come up may fail: then a restart of them all knows the way back.
        """
        old = {server: fiber.config for server, fiber in self._fibers.items()}
        new = config.servers
        changed = {server: one for server, one in new.items() if old.get(server) != one}
        if not new or any(one.required for one in changed.values()):
            return False
        for server in old.keys() - new.keys():
            await self._fibers.pop(server).dispose()
        for server in changed.keys() & old.keys():
            await self._fibers[server].update(changed.pop(server))
        await self.mount(changed)
        return True


def _server_class() -> type[Server]:
    try:
        from .server import Server
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("harness"):
            raise
        raise PluginError(
            f"mcp_tools needs the package {error.name!r}: pip install 'harness-core[mcp]'"
        ) from error
    return Server
