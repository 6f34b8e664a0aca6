"""Servers behind a URL: found, lost, and found again, whether they speak the new way or the old."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import anyio
import pytest

from harness_core.testing import assert_no_residue

from .endpoint import Endpoint
from .living import Changes, Reports, call, mount, names, tree, until

pytestmark = pytest.mark.asyncio

TOOLS = ["add_tool", "echo", "slow"]


@pytest.fixture(params=["new", "old"])
def endpoint(request: pytest.FixtureRequest) -> Iterator[Endpoint]:
    """A server that runs, of each age."""
    started = Endpoint(is_old=request.param == "old").start()
    yield started
    started.stop()


def at(endpoint: Endpoint, **options: Any) -> dict[str, Any]:
    """Return the settings for an endpoint."""
    return {"url": endpoint.url, "retry": 0.05, "retry_max": 0.2, **options}


async def test_its_tools_are_called(endpoint: Endpoint) -> None:
    """And nothing is left; a session is ended by the one who began it."""
    async with tree() as root, assert_no_residue(root):
        fiber = await mount(root, web=at(endpoint, prefix="web_"))
        assert names(root) == [f"web_{name}" for name in TOOLS]
        result = await call(root, "web_echo", word="Grüße")
        assert (result.status, result.text) == ("ok", "Grüße")
        await fiber.dispose()
        assert ("DELETE" in endpoint.journal) is endpoint.is_old  # the new way has no sessions


async def test_its_list_is_followed(endpoint: Endpoint) -> None:
    """One tool more is one change of the prompt."""
    async with tree() as root:
        await mount(root, web=at(endpoint))
        if endpoint.is_old:
            await until(lambda: "GET" in endpoint.journal)
        changes = Changes(root)
        assert (await call(root, "add_tool", name="more")).status == "ok"
        await until(lambda: "more" in names(root))
        assert changes.taken() == 1


async def test_a_call_that_is_given_up_is_cancelled_there(endpoint: Endpoint) -> None:
    """The server hears of it."""
    async with tree() as root:
        await mount(root, web=at(endpoint, call_timeout=0.3))
        assert (await call(root, "slow")).status == "timed-out"
        await until(lambda: "slow ended" in endpoint.journal)
        assert (await call(root, "echo", word="on")).text == "on"


async def test_when_it_goes_its_tools_go_and_come_back(endpoint: Endpoint) -> None:
    """Though nobody calls; what it offers when it is back is what counts."""
    async with tree() as root:
        reports = Reports(root)
        await mount(root, web=at(endpoint))
        if endpoint.is_old:
            await until(lambda: "GET" in endpoint.journal)
        await anyio.to_thread.run_sync(endpoint.stop)
        await until(lambda: names(root) == [])
        await until(lambda: len(reports.errors) >= 2)  # it went away; and then it did not come up
        assert 'server "web" went away' in reports.errors[0][1]
        assert 'server "web" did not come up' in reports.errors[1][1]
        await anyio.to_thread.run_sync(endpoint.start, "fresh")
        await until(lambda: names(root) == sorted([*TOOLS, "fresh"]))
        assert (await call(root, "fresh", word="back")).text == "back"


async def test_one_that_goes_during_a_call_fails_it_at_once(endpoint: Endpoint) -> None:
    """Whether its last word was an error, or it had none."""
    async with tree() as root:
        await mount(root, web=at(endpoint))
        results: list[Any] = []

        async def run() -> None:
            results.append(await call(root, "slow"))

        with anyio.fail_after(10):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(run)
                await until(lambda: "slow began" in endpoint.journal)
                await anyio.to_thread.run_sync(endpoint.stop)
        await anyio.to_thread.run_sync(endpoint.start)
        assert results[0].status == "failed"
        assert results[0].text.startswith(
            ('server "web" went away during', 'server "web" refused the call: Server returned an')
        )


async def test_one_that_has_forgotten_us_is_met_anew() -> None:
    """A session ends when a server starts anew; if nobody saw it away, the next call sees it."""
    endpoint = Endpoint(is_old=True, is_silent=True).start()
    try:
        async with tree() as root:
            await mount(root, web=at(endpoint))
            await until(lambda: endpoint.journal.count("GET") == 2)  # the SDK asks no more
            assert (await call(root, "echo", word="x")).text == "x"
            endpoint.stop()
            endpoint.start("fresh")
            result = await call(root, "echo", word="x")
            assert result.status == "failed"
            await until(lambda: "fresh" in names(root))
            assert (await call(root, "echo", word="x")).text == "x"
    finally:
        endpoint.stop()


async def test_one_that_is_not_there_yet_is_tried_again() -> None:
    """The plugin stands meanwhile."""
    endpoint = Endpoint()
    async with tree() as root:
        reports = Reports(root)
        await mount(root, web=at(endpoint))
        assert names(root) == []
        assert 'server "web" did not come up: ConnectError' in str(reports)
        await anyio.to_thread.run_sync(endpoint.start)
        try:
            await until(lambda: names(root) == TOOLS)
        finally:
            await anyio.to_thread.run_sync(endpoint.stop)


async def test_headers_are_sent_and_never_told() -> None:
    """They hold secrets."""
    endpoint = Endpoint(token="s3cret").start()
    try:
        async with tree() as root:
            reports = Reports(root)
            good = at(endpoint, headers={"Authorization": "Bearer s3cret"})
            bad = at(endpoint, headers={"Authorization": "Bearer wr0ng"}, retry=60, retry_max=60)
            fiber = await mount(root, good=good, bad=bad)
            assert names(root) == TOOLS
            assert [who for who, _ in reports.errors] == ["mcp:bad"]
            assert "wr0ng" not in str(reports) + repr(fiber.config)
    finally:
        endpoint.stop()


async def test_what_changes_before_it_is_listened_to_is_not_missed() -> None:
    """Nobody is told of it."""
    endpoint = Endpoint(late="late").start()
    try:
        async with tree() as root:
            await mount(root, web=at(endpoint))
            await until(lambda: names(root) == sorted([*TOOLS, "late"]))
    finally:
        endpoint.stop()


async def test_the_time_to_connect_is_no_limit_for_a_call(endpoint: Endpoint) -> None:
    """Nor for a stream that has nothing to say."""
    async with tree() as root:
        reports = Reports(root)
        await mount(root, web=at(endpoint, connect_timeout=0.6, call_timeout=1.2))
        await until(lambda: names(root) == TOOLS)
        before = len(reports.errors)
        assert (await call(root, "slow")).status == "timed-out"
        assert len(reports.errors) == before


async def test_one_that_does_not_answer_who_takes_leave_is_left() -> None:
    """After a while; nothing of it stays."""
    endpoint = Endpoint(is_old=True, is_clinging=True).start()
    try:
        async with tree() as root, assert_no_residue(root):
            fiber = await mount(root, web=at(endpoint, shutdown_timeout=0.2))
            with anyio.fail_after(5):
                await fiber.dispose()
            assert "DELETE" in endpoint.journal
    finally:
        endpoint.stop()


async def test_one_that_answers_nobody_is_reported_for_what_it_did_first() -> None:
    """And not for what became of our leaving."""
    endpoint = Endpoint(is_old=True, is_clinging=True, mute_from=4).start()
    options = {"connect_timeout": 1, "shutdown_timeout": 0.2, "retry": 60, "retry_max": 60}
    try:
        async with tree() as root:
            reports = Reports(root)
            await mount(root, web=at(endpoint, **options))
            assert endpoint.journal.count("POST") >= 4
            ((_, said),) = reports.errors
            assert said == 'server "web" did not come up: it did not answer within 1 s'
            await until(lambda: "DELETE" in endpoint.journal)
    finally:
        endpoint.stop()
