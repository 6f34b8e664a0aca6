"""An assembly does not wait for ever for plugins that are being swapped."""

from __future__ import annotations

import anyio
import pytest

from harness_core import Context, FiberState
from harness_core.errors import SwapTimeoutError
from harness_core.testing import run_with_virtual_clock

from .tree import live


def test_the_wait_for_a_swap_is_bounded() -> None:
    """Then a clear error names who is being swapped; nothing stays closed (law L8)."""
    run_with_virtual_clock(_assemble_beside_a_stuck_plugin)


async def _assemble_beside_a_stuck_plugin() -> None:
    loads: list[str] = []
    is_stuck = anyio.Event()

    async def stuck(ctx: Context) -> None:
        loads.append(ctx.fiber.name)
        if len(loads) > 1:
            is_stuck.set()
            await anyio.sleep_forever()

    async with live() as (root, sp):
        fiber = await root.plugin(stuck)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(fiber.restart)
            await is_stuck.wait()
            assert fiber.state is FiberState.LOADING
            began = anyio.current_time()
            with pytest.raises(SwapTimeoutError, match="root/stuck") as caught:
                await sp.assemble()
            assert caught.value.swapping == ["root/stuck"]
            assert caught.value.seconds == pytest.approx(anyio.current_time() - began)
            assert isinstance(caught.value, TimeoutError)
            tasks.cancel_scope.cancel()
        await fiber.dispose()
        await sp.assemble()
