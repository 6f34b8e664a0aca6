"""`assert_no_residue`: nothing that a block of code did is left when it ends (law L2)."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType

from ..kernel.context import Context
from .snapshot import Residue, Snapshot, observe

__all__ = ["ResidueCheck", "ResidueError", "assert_no_residue"]


class ResidueError(AssertionError):
    """Something was left behind. `left` says what, one record each."""

    def __init__(self, left: Sequence[Residue], what: str = "the block") -> None:
        self.left = tuple(left)
        lines = "\n".join(f"  {residue}" for residue in self.left)
        count = "1 thing" if len(self.left) == 1 else f"{len(self.left)} things"
        super().__init__(f"{what} left {count} behind:\n{lines}")


class ResidueCheck:
    """What `assert_no_residue` returns: a context manager, sync and async.

    `left` is what was found when the block ended.
    """

    def __init__(self, ctx: Context, *, tasks: bool, links: bool, modules: bool) -> None:
        self._ctx = ctx
        self._options = {"tasks": tasks, "links": links, "modules": modules}
        self._before: Snapshot | None = None
        self.left: tuple[Residue, ...] = ()

    def __enter__(self) -> ResidueCheck:
        self._before = observe(self._ctx, **self._options)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self._before is not None
        self.left = observe(self._ctx, **self._options).added_since(self._before)
        self._before = None
        if not self.left:
            return
        found = ResidueError(self.left)
        if error is None:
            raise found
        error.add_note(str(found))  # the block's own error is the more important one

    async def __aenter__(self) -> ResidueCheck:
        return self.__enter__()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.__exit__(kind, error, traceback)


def assert_no_residue(
    ctx: Context, *, tasks: bool = True, links: bool = False, modules: bool = False
) -> ResidueCheck:
    """Assert that a block leaves the tree of `ctx` as it found it.

        async with assert_no_residue(root):
            fiber = await root.plugin(my_plugin)
            await fiber.dispose()

    Works with `async with` and with `with`. Looks at fibers, effects, listeners, services, the
    layers of every scope, consumers, overrides, context attributes, declared events and, with
    `tasks`, running tasks; on request at `links` of scope keys and at `sys.modules`. Raises
    ResidueError, an AssertionError, that names each thing left with its owner, file and line. It
    does not wait: what is still under way when the block ends is residue.
    """
    return ResidueCheck(ctx, tasks=tasks, links=links, modules=modules)
