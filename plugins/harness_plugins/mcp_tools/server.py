"""One server as a plugin of its own: connected, lost, connected again, and ended with its fiber.

One task does all of it, so that each cancel scope of the SDK is left by the task that entered it.
"""

from __future__ import annotations

import os
import sys

import anyio
from mcp.client.stdio import get_default_environment
from mcp.shared.exceptions import MCPError
from pydantic import ValidationError

from harness_core import Context
from harness_core.errors import InactiveFiberError

from .config import ServerConfig
from .connection import Connection, connected
from .http import ServerEndpoint
from .log import ServerLog, logger
from .offer import Offer, ServerError
from .pauses import Pauses
from .process import Launch, ServerProcess
from .reasons import innermost, is_plain, reason_of
from .shelf import Shelf

__all__ = ["Server"]


class Server:
    """The plugin of one server."""

    inject = ("tools", "system_prompt")
    Config = ServerConfig

    def __init__(self, server: str, directory: str, config: ServerConfig) -> None:
        self.name = f"mcp:{server}"
        self.grace = 3 * config.shutdown_timeout + 5
        self._server = server
        self._directory = directory

    async def apply(self, ctx: Context, config: ServerConfig) -> None:
        """Connect, and wait for what comes of the first attempt; the others go on behind."""
        link = _Link(ctx, self._server, config, self._directory)
        ctx.start_soon(link.run, name=f"connection to {self._server}")
        # Undone before the task is cancelled: a server is left with a good-bye, if there is time.
        ctx.effect(lambda: link.stop, label=f"farewell to {self._server}")
        await link.tried.wait()
        if config.required and link.failure is not None:
            raise link.failure


class _Link:
    """Keeps one server connected. `tried` is set after the first attempt, `failure` is its end."""

    def __init__(self, ctx: Context, server: str, config: ServerConfig, directory: str) -> None:
        self._ctx = ctx
        self._server = server
        self._config = config
        self._directory = directory
        self._shelf = Shelf(ctx, server, config)
        self._stopping = anyio.Event()
        self._over = anyio.Event()
        self._connection: Connection | None = None
        self._connecting: anyio.CancelScope | None = None
        self._stands_since: float | None = None
        self._said = ""
        self.tried = anyio.Event()
        self.failure: ServerError | None = None

    async def stop(self) -> None:
        """Take leave of the server, and wait until it is gone."""
        self._stopping.set()
        if self._connecting is not None:
            self._connecting.cancel()
        await self._over.wait()

    async def run(self) -> None:
        """Connect, and connect again whenever the server has gone, until it is to stop."""
        pauses = Pauses(self._config.retry, self._config.retry_max)
        try:
            while not self._stopping.is_set():
                self._stands_since = None
                try:
                    await self._live()
                except ServerError as error:
                    self._fail(error)
                with anyio.move_on_after(pauses.after(self._stood())):
                    await self._stopping.wait()
        finally:
            self.tried.set()
            self._over.set()

    def _stood(self) -> float | None:
        since = self._stands_since
        return anyio.current_time() - since if since is not None else None

    def _fail(self, error: ServerError) -> None:
        """Report why there is no connection; the same reason again, quietly."""
        is_first = not self.tried.is_set()
        if is_first:
            self.failure = error
            self.tried.set()
        if is_first and self._config.required:
            return  # the fiber fails with it, and says so
        if self._said == str(error):
            logger.info("server %s: still no connection", self._server)
            return
        self._said = str(error)
        self._ctx.fiber.report(error, f'connecting to server "{self._server}"')

    # One connection

    async def _live(self) -> None:
        """Live through one connection, from start to end.

        Raises ServerError if it does not come about, or ends without our doing.
        """
        transport = self._transport()
        failure: Exception | None = None
        try:
            with anyio.CancelScope() as life:
                async with transport as streams:
                    try:
                        is_remote = self._config.url is not None
                        async with connected(streams, self._server, is_remote=is_remote) as one:
                            await self._use(one)
                    except Exception as error:
                        failure = error
                        raise
                    finally:
                        # Taking leave may mean to wait for somebody who does not answer.
                        life.deadline = anyio.current_time() + self._config.shutdown_timeout
        except Exception as error:
            failure = failure or error
        if self._stopping.is_set():
            logger.info("server %s was left: %r", self._server, failure)
            return
        reason = innermost(failure) if failure is not None else None
        said = self._explain(reason, transport.last_words())
        raise ServerError(said) from None if is_plain(reason) else failure

    def _transport(self) -> ServerProcess | ServerEndpoint:
        config = self._config
        if config.url is not None:
            return ServerEndpoint(config.url, config.headers, config.connect_timeout, self._suspect)
        assert config.command is not None
        launch = Launch(
            (config.command, *config.args),
            {**_environment(), **config.env},
            os.path.join(self._directory, config.cwd) if config.cwd else self._directory or None,
            config.shutdown_timeout,
        )
        return ServerProcess(launch, ServerLog(self._server))

    def _suspect(self) -> None:
        if self._connection is not None:
            self._connection.suspect()

    async def _use(self, connection: Connection) -> None:
        """Show what the server offers, and follow it, until it goes or is to go."""
        offer = await self._greet(connection)
        if offer is None:
            return
        self._connection = connection
        try:
            if not self._show(connection, offer):
                return
            self._came_up()
            await self._stay(connection)
        finally:
            self._connection = None
            self._shelf.clear()

    async def _greet(self, connection: Connection) -> Offer | None:
        """Return what the server offers first; None if we were told to stop before it said so."""
        found: list[Offer] = []
        try:
            with anyio.fail_after(self._config.connect_timeout) as self._connecting:
                await connection.shake_hands(self._config.connect_timeout)
                found.append(await self._offer_of(connection))
        finally:
            self._connecting = None
        return found[0] if found and not self._stopping.is_set() else None

    async def _stay(self, connection: Connection) -> None:
        async with anyio.create_task_group() as tasks:

            async def end_at(event: anyio.Event) -> None:
                await event.wait()
                tasks.cancel_scope.cancel()

            tasks.start_soon(end_at, connection.closed)
            tasks.start_soon(end_at, self._stopping)
            tasks.start_soon(connection.listen)
            tasks.start_soon(connection.watch)
            tasks.start_soon(self._follow, connection)

    def _came_up(self) -> None:
        self._stands_since = anyio.current_time()
        self._said = ""
        self.failure = None
        self.tried.set()

    async def _offer_of(self, connection: Connection) -> Offer:
        config = self._config
        return await connection.offer(
            resources=bool(config.resources), prompts=bool(config.prompts)
        )

    async def _follow(self, connection: Connection) -> None:
        """List again whenever the server says that something has changed."""
        while True:
            await connection.next_change()
            try:
                with anyio.fail_after(self._config.connect_timeout):
                    offer = await self._offer_of(connection)
            except (MCPError, ServerError, ValidationError, TimeoutError) as error:
                # What was listed before stands. The same complaint is made once.
                if not connection.is_lost(error) and self._said != str(error):
                    self._said = str(error)
                    self._ctx.fiber.report(error, f'listing what server "{self._server}" offers')
                continue
            self._said = ""
            if not self._show(connection, offer):
                return

    def _show(self, connection: Connection, offer: Offer) -> bool:
        """Register what is offered; return whether the fiber still takes registrations."""
        try:
            self._shelf.show(connection, offer)
        except InactiveFiberError:
            return False  # it is being ended: whoever does that tells us to stop
        return True

    def _explain(self, error: BaseException | None, last_words: str) -> str:
        stood = self._stands_since is not None
        what = "went away" if stood else "did not come up"
        text = f'server "{self._server}" {what}'
        reason = reason_of(error, self._config, self._directory)
        if reason:
            text += f": {reason}"
        if last_words:
            text += f"; {last_words}"
        return text


def _environment() -> dict[str, str]:
    """Return what every server is given: what programs cannot do without, and no secrets.

    Programs that are installed beside the interpreter are found too, after all others: those of a
    virtual environment that nobody has activated.
    """
    environment = get_default_environment()
    places = [environment.get("PATH", os.defpath), os.path.dirname(sys.executable)]
    return {**environment, "PATH": os.pathsep.join(filter(None, places))}
