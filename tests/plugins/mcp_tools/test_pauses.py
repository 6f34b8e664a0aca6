"""The pauses between attempts, told by a clock that does not make us wait."""

from __future__ import annotations

import logging

import anyio
from harness_plugins.mcp_tools.log import logger
from harness_plugins.mcp_tools.pauses import Pauses
from hypothesis import given
from hypothesis import strategies as st

from harness_core.testing import run_with_virtual_clock

from .living import mount, tree

FIRST, MOST = 1.0, 10.0


@given(st.lists(st.none() | st.floats(0, 100)))
def test_a_pause_is_the_first_or_double_the_last_and_never_more_than_the_most(
    history: list[float | None],
) -> None:
    """It begins anew after a connection that stood for longer than the pause that would come."""
    pauses = Pauses(FIRST, MOST)
    coming = FIRST
    for stood in history:
        if stood is not None and stood > coming:
            coming = FIRST
        assert pauses.after(stood) == coming
        coming = min(2 * coming, MOST)


def test_a_server_that_never_comes_up_is_tried_in_these_pauses() -> None:
    """At 0, 1, 3, 7, 12 and 17 seconds."""
    times: list[float] = []

    class Clock(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            times.append(round(anyio.current_time() - began, 3))

    async def live() -> None:
        nonlocal began
        async with tree() as root:
            began = anyio.current_time()
            root.on("fiber/error", lambda *_: times.append(0))
            await mount(root, one={"command": "no-such-program", "retry": 1, "retry_max": 5})
            await anyio.sleep(20)

    began = 0.0
    clock = Clock()
    level = logger.level
    logger.addHandler(clock)
    logger.setLevel(logging.INFO)
    try:
        run_with_virtual_clock(live)
    finally:
        logger.removeHandler(clock)
        logger.setLevel(level)
    assert times[:6] == [0, 1, 3, 7, 12, 17]
