"""What goes wrong between an adapter and its provider: one attempt, one error, nothing left."""

from __future__ import annotations

import gc
import logging
import sys
from collections.abc import Iterator
from contextlib import aclosing, contextmanager
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from harness_plugins.llm.api import (
    Message,
    ModelAdapter,
    ModelError,
    ModelRequest,
    Reply,
    TextDelta,
    find_adapter,
)

from harness_core import Context
from harness_core.testing import assert_no_residue, check_plugin

from .server import Answer, Respond, serving
from .speak import (
    HELLO,
    HELLOS,
    KEY,
    PATHS,
    PLUGINS,
    adapter_for,
    anthropic_says,
    block,
    chunk,
    message_end,
    message_start,
    openai_says,
    read,
    reply_of,
)

pytestmark = [pytest.mark.asyncio, pytest.mark.parametrize("kind", ["openai", "anthropic"])]


async def begin(kind: str, answer: Answer) -> None:
    """Send the beginning of a reply: the text "Hi"."""
    await answer.head()
    if kind == "openai":
        await answer.event(chunk({"content": "Hi"}))
        return
    text = block(0, {"type": "text", "text": ""}, {"type": "text_delta", "text": "Hi"})[:2]
    for one in (message_start(), *text):
        await answer.event(one, one["type"])


def error_body(kind: str, name: str, message: str) -> dict[str, Any]:
    """Return an error as the provider writes it."""
    if kind == "openai":
        return {"error": {"message": message, "type": "some_error", "code": name}}
    return {"type": "error", "error": {"type": name, "message": message}}


async def fault(adapter: ModelAdapter) -> ModelError:
    """Return the error of one reply."""
    with pytest.raises(ModelError) as raised:
        await read(adapter)
    assert raised.value.__cause__ is None
    assert raised.value.__context__ is None
    assert raised.value.provider == adapter.provider
    return raised.value


@pytest.mark.parametrize(
    ("status", "name", "message", "expected", "passing"),
    [
        (400, "invalid_request_error", "messages: too short", "invalid-request", False),
        (400, "context_length_exceeded", "This is too much", "too-long", False),
        (400, "invalid_request_error", "prompt is too long: 9 > 8", "too-long", False),
        (400, "x", "maximum context length is 8 tokens", "too-long", False),
        (401, "authentication_error", "wrong key", "authentication", False),
        (402, "billing_error", "no balance", "authentication", False),
        (403, "permission_error", "not you", "authentication", False),
        (404, "not_found_error", "no such model", "not-found", False),
        (408, "timeout_error", "too slow", "timed-out", True),
        (413, "request_too_large", "too many bytes", "too-long", False),
        (422, "x", "what is this", "invalid-request", False),
        (429, "rate_limit_error", "slow down", "rate-limited", True),
        (429, "insufficient_quota", "pay first", "authentication", False),
        (500, "api_error", "oh no", "overloaded", True),
        (503, "x", "later", "overloaded", True),
        (529, "overloaded_error", "too many of you", "overloaded", True),
    ],
)
async def test_an_error_is_told_by_its_kind(
    kind: str, status: int, name: str, message: str, expected: str, passing: bool
) -> None:
    """With the provider's words and its status; asked once, for a retry is not ours to decide."""

    async def respond(answer: Answer) -> None:
        await answer.json(status, error_body(kind, name, message))

    async with serving(respond) as server, adapter_for(kind, server) as adapter:
        error = await fault(adapter)
        assert (error.kind, error.status, error.is_passing) == (expected, status, passing)
        assert message in str(error)
        assert name in str(error)
        assert len(server.asked) == 1


@pytest.mark.parametrize("body", [None, {"detail": "Not Found"}])
async def test_an_address_where_no_provider_is_is_told(
    kind: str, body: dict[str, Any] | None
) -> None:
    """A `base_url` with too much or too little of a path is the usual reason."""

    async def respond(answer: Answer) -> None:
        if body is not None:
            await answer.json(404, body)
            return
        await answer.head(404, {"content-type": "text/plain"})
        await answer.write("Not Found")
        await answer.end()

    async with serving(respond) as server, adapter_for(kind, server) as adapter:
        error = await fault(adapter)
        (asked,) = server.asked
        assert (error.kind, error.status) == ("not-found", 404)
        address = f"http://{asked.headers['host']}{asked.path}"
        assert f"nothing is at {address.partition('?')[0]}: check base_url" in str(error)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "7"}, 7.0),
        ({"retry-after-ms": "1500", "retry-after": "9"}, 1.5),
        (
            {
                "retry-after": "Mon, 01 Jan 2024 00:00:20 GMT",
                "date": "Mon, 01 Jan 2024 00:00:00 GMT",
            },
            20.0,
        ),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "inf"}, None),
        ({}, None),
    ],
)
async def test_how_long_to_wait_is_told(
    kind: str, headers: dict[str, str], seconds: float | None
) -> None:
    """In seconds, whichever way the provider says it."""

    async def respond(answer: Answer) -> None:
        await answer.json(429, error_body(kind, "rate_limit_error", "slow down"), headers)

    async with serving(respond) as server, adapter_for(kind, server) as adapter:
        assert (await fault(adapter)).retry_after == seconds


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"object": "error", "message": "flat", "code": 400}, "flat"),
        ({"error": "just text"}, "just text"),
        ({"detail": "of a framework"}, "of a framework"),
        (["odd"], "400"),
    ],
)
async def test_errors_of_other_shapes_are_read_too(kind: str, body: object, words: str) -> None:
    """Gateways and other servers write their own."""

    async def respond(answer: Answer) -> None:
        await answer.json(400, body)

    async with serving(respond) as server, adapter_for(kind, server) as adapter:
        error = await fault(adapter)
        assert error.kind == "invalid-request"
        assert words in str(error)


@pytest.mark.parametrize(
    ("name", "message", "expected"),
    [
        ("overloaded_error", "too many of you", "overloaded"),
        ("rate_limit_error", "slow down", "rate-limited"),
        ("invalid_request_error", "not so", "invalid-request"),
        ("what is new", "hm", "overloaded"),
        ("invalid_request_error", "prompt is too long", "too-long"),
    ],
)
async def test_an_error_in_the_middle_of_a_reply_is_told(
    kind: str, name: str, message: str, expected: str
) -> None:
    """After a status of 200, which is not its status."""

    async def respond(answer: Answer) -> None:
        await begin(kind, answer)
        await answer.event(error_body(kind, name, message), "error")
        await answer.end()

    async with serving(respond) as server, adapter_for(kind, server) as adapter:
        error = await fault(adapter)
        assert (error.kind, error.status) == (expected, None)
        assert f"{message} ({name}), in the middle of the reply" in str(error)


async def test_a_reply_that_is_cut_off_is_disconnected(kind: str) -> None:
    """What came before has been told."""

    async def respond(answer: Answer) -> None:
        await begin(kind, answer)
        await answer.cut()

    async with serving(respond) as server, adapter_for(kind, server) as adapter:
        stream = adapter.stream(HELLO)
        assert await anext(stream) == TextDelta("Hi")
        with pytest.raises(ModelError, match="ended before the reply") as raised:
            await anext(stream)
        assert raised.value.kind == "disconnected"


async def test_a_reply_that_ends_too_early_is_disconnected(kind: str) -> None:
    """Properly ended by HTTP, but the provider never said that it was over."""

    async def respond(answer: Answer) -> None:
        await begin(kind, answer)
        await answer.end()

    async def nothing(answer: Answer) -> None:
        await answer.head()
        await answer.end()

    async with serving(respond, nothing) as server, adapter_for(kind, server) as adapter:
        for _ in range(2):
            error = await fault(adapter)
            assert error.kind == "disconnected"
            assert "before it was whole" in str(error)


@pytest.mark.parametrize(
    ("headers", "body", "words"),
    [
        ({"content-type": "text/html"}, "<html>Welcome</html>", "no stream, but text/html"),
        ({"content-type": "application/json"}, "{}", "no stream, but application/json"),
        (None, "data: {oops\n\n", "JSONDecodeError"),
        (None, "data: [1, 2]\n\n", "no reply can be read"),
        (None, 'data: "text"\n\n', "no reply can be read"),
        (None, b"data: \xff\xfe\n\n", "UnicodeDecodeError"),
    ],
)
async def test_what_is_no_reply_says_so(
    kind: str, headers: dict[str, str] | None, body: str | bytes, words: str
) -> None:
    """A page of a proxy, a server that does not stream, broken events."""
    event = b"event: message_start\n" if headers is None else b""

    async def respond(answer: Answer) -> None:
        await answer.head(200, headers)
        await answer.write(event + (body.encode() if isinstance(body, str) else body))
        await answer.end()

    async with serving(respond) as server, adapter_for(kind, server) as adapter:
        error = await fault(adapter)
        assert error.kind == "protocol"
        assert words in str(error)


async def test_bytes_that_are_not_http_are_an_error_of_the_connection(kind: str) -> None:
    """Another service on that port."""

    async def respond(answer: Answer) -> None:
        await answer._stream.send(b"SSH-2.0-hello\r\n\r\n")

    async with serving(respond) as server, adapter_for(kind, server) as adapter:
        assert (await fault(adapter)).kind == "disconnected"


async def test_no_connection_names_the_address(kind: str) -> None:
    """Nobody listens there."""
    async with serving(HELLOS[kind]) as server:
        pass
    async with adapter_for(kind, server) as adapter:
        error = await fault(adapter)
        assert error.kind == "disconnected"
        assert server.url.removeprefix("http://") in str(error)


TIMES = {"connect": 5.0, "first_byte": 0.3, "between_bytes": 0.3}


@pytest.mark.parametrize("between_bytes", [0.1, 60.0])
async def test_a_reply_that_does_not_begin_in_time_has_timed_out(
    kind: str, between_bytes: float
) -> None:
    """Neither its head, nor after its head the first byte of its body."""
    heads: list[bool] = []

    async def respond(answer: Answer) -> None:
        if heads:
            await answer.head()
        heads.append(True)
        await answer.gone()

    async with (
        serving(respond) as server,
        adapter_for(kind, server, timeout={**TIMES, "between_bytes": between_bytes}) as adapter,
    ):
        for _ in range(2):
            began = anyio.current_time()
            assert (await fault(adapter)).kind == "timed-out"
            assert 0.29 <= anyio.current_time() - began < 5
        assert len(server.asked) == 2


async def test_a_reply_that_stops_has_timed_out(kind: str) -> None:
    """The time between bytes counts, not that of the whole."""

    async def respond(answer: Answer) -> None:
        await begin(kind, answer)
        await answer.gone()

    async with (
        serving(respond) as server,
        adapter_for(kind, server, timeout={**TIMES, "first_byte": 60.0}) as adapter,
    ):
        error = await fault(adapter)
        assert error.kind == "timed-out"
        assert "stopped for 0.3 s" in str(error)


@pytest.mark.parametrize("first_byte", [0.5, 5.0])
async def test_slow_bytes_are_no_timeout(kind: str, first_byte: float) -> None:
    """A reply may take long, as long as something comes: a comment is enough."""
    whole: list[bytes] = []

    class Recorder(Answer):
        async def write(self, text: str | bytes) -> None:
            whole.append(text.encode() if isinstance(text, str) else text)

        async def head(self, *_: Any, **__: Any) -> None: ...

        async def end(self) -> None: ...

    async def respond(answer: Answer) -> None:
        await HELLOS[kind](Recorder(answer._stream, answer.asked))
        await answer.head()
        await answer.write(": still here\n\n")
        await anyio.sleep(0.7)
        await answer.write(": still here\n\n")
        raw = b"".join(whole)
        for index in range(0, len(raw), 7):
            await answer.write(raw[index : index + 7])
            await anyio.sleep(0.001)
        await answer.end()

    times = {"connect": 5.0, "first_byte": first_byte, "between_bytes": 5.0}
    async with serving(respond) as server, adapter_for(kind, server, timeout=times) as adapter:
        began = anyio.current_time()
        assert (await reply_of(adapter)).message.text == "Hi"
        assert anyio.current_time() - began > 0.69


async def test_one_connection_serves_many_replies(kind: str) -> None:
    """It is kept, and a new key needs no new one."""
    async with serving(HELLOS[kind]) as server, adapter_for(kind, server) as adapter:
        for _ in range(3):
            await reply_of(adapter)
        assert (len(server.asked), server.connections) == (3, 1)


def hangs(kind: str, gone: anyio.Event) -> Respond:
    """Return an answer that begins, waits, and says when the client has gone."""

    async def respond(answer: Answer) -> None:
        await begin(kind, answer)
        await answer.gone()
        gone.set()

    return respond


async def test_a_reader_that_is_cancelled_closes_the_connection(kind: str) -> None:
    """At once: the server sees it."""
    gone = anyio.Event()
    async with serving(hangs(kind, gone)) as server, adapter_for(kind, server) as adapter:
        with anyio.CancelScope() as scope:
            async for event in adapter.stream(HELLO):
                assert event == TextDelta("Hi")
                scope.cancel()
        assert scope.cancelled_caught
        await gone.wait()


@contextmanager
def closed_at_once() -> Iterator[list[object]]:
    """Check that the block takes no time and leaves no generator for the event loop to finish."""
    left: list[object] = []
    hooks = sys.get_asyncgen_hooks()
    began = anyio.current_time()
    sys.set_asyncgen_hooks(finalizer=left.append)
    try:
        yield left
        gc.collect()
    finally:
        sys.set_asyncgen_hooks(*hooks)
    assert not left
    assert anyio.current_time() - began < 4


async def test_a_reader_that_has_had_enough_closes_the_connection(kind: str) -> None:
    """And nothing is left for the event loop to finish."""
    gone = anyio.Event()
    async with serving(hangs(kind, gone)) as server, adapter_for(kind, server) as adapter:
        with closed_at_once():
            stream = adapter.stream(HELLO)
            assert await anext(stream) == TextDelta("Hi")
            await stream.aclose()
            await gone.wait()
            del stream


async def test_a_reader_that_is_cancelled_between_pieces_closes_the_connection(kind: str) -> None:
    """Closing it takes a moment, which the cancellation does not take away."""
    gone = anyio.Event()
    async with serving(hangs(kind, gone)) as server, adapter_for(kind, server) as adapter:
        with closed_at_once():
            with anyio.CancelScope() as scope:
                async with aclosing(adapter.stream(HELLO)) as stream:
                    await anext(stream)
                    scope.cancel()
                    await anyio.lowlevel.checkpoint()
            assert scope.cancelled_caught
            await gone.wait()
            del stream


async def test_a_reader_that_is_cancelled_before_the_first_byte_closes_the_connection(
    kind: str,
) -> None:
    """While the provider thinks."""
    gone = anyio.Event()
    asked = anyio.Event()

    async def respond(answer: Answer) -> None:
        asked.set()
        await answer.gone()
        gone.set()

    async with serving(respond) as server, adapter_for(kind, server) as adapter:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(read, adapter)
            await asked.wait()
            tasks.cancel_scope.cancel()
        await gone.wait()


@pytest.mark.parametrize("reading", [True, False])
async def test_a_reply_ends_with_its_plugin(kind: str, reading: bool) -> None:
    """Whether somebody waits for the next piece or has yet to ask; the connection is closed."""
    gone = anyio.Event()
    errors: list[ModelError] = []

    async def rest_of(stream: Any) -> None:
        with pytest.raises(ModelError) as raised:
            await anext(stream)
        errors.append(raised.value)

    async with Context() as root, serving(hangs(kind, gone)) as server:
        fiber = await root.plugin(PLUGINS[kind], base_url=server.url + PATHS[kind])
        adapter = find_adapter(root)
        stream = adapter.stream(HELLO)
        assert await anext(stream) == TextDelta("Hi")
        async with anyio.create_task_group() as tasks:
            if reading:
                tasks.start_soon(rest_of, stream)
                await anyio.wait_all_tasks_blocked()
            await fiber.dispose()
            await gone.wait()
            if not reading:
                await rest_of(stream)
        errors.append(await fault(adapter))
        for error in errors:
            assert error.__context__ is None
            assert (error.kind, error.is_passing) == ("disconnected", True)
            assert "the plugin of this adapter was unloaded" in str(error)
        assert len(server.asked) == 1


async def test_it_leaves_nothing_behind_however_its_life_goes(kind: str) -> None:
    """Loaded, disposed, reloaded, with failures and cancellation wherever it waits."""
    report = await check_plugin(PLUGINS[kind], {"base_url": "http://127.0.0.1:1"})
    assert report.ok, report
    async with Context() as root:

        async def live() -> None:
            async with serving(HELLOS[kind]) as server:
                fiber = await root.plugin(PLUGINS[kind], base_url=server.url + PATHS[kind])
                await reply_of(find_adapter(root))
                await fiber.dispose()

        await live()  # the SDK loads parts of itself with the first request
        async with assert_no_residue(root, modules=True):
            await live()


async def test_the_key_is_nowhere_but_in_the_request(
    kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Not in logs, errors, tracebacks with locals, reprs; also if the server repeats it."""
    import traceback

    async def repeats(answer: Answer) -> None:
        words = f"the key {KEY} in {answer.asked.headers} is wrong"
        await answer.json(401, error_body(kind, "authentication_error", words))

    async def repeats_later(answer: Answer) -> None:
        await begin(kind, answer)
        await answer.event(error_body(kind, "api_error", f"{KEY}!"), "error")

    async def broken(answer: Answer) -> None:
        await answer.head()
        await answer.write(f"event: message_start\ndata: {KEY}\n\n")
        await answer.end()

    async def cut(answer: Answer) -> None:
        await answer.cut()

    texts: list[str] = []
    caplog.set_level(logging.DEBUG)
    for name in ("openai", "anthropic", "httpx2", "httpcore2", "httpx", "httpcore", "asyncio"):
        caplog.set_level(logging.DEBUG, logger=name)
    answers = (repeats, repeats_later, broken, cut, HELLOS[kind])
    async with Context() as root, serving(*answers) as server:
        fiber = await root.plugin(PLUGINS[kind], base_url=server.url + PATHS[kind])
        adapter = find_adapter(root)
        for _ in answers[:-1]:
            error = await fault(adapter)
            told = traceback.TracebackException.from_exception(error, capture_locals=True)
            texts += [*told.format(), repr(error), repr(vars(error)), repr(error.__reduce__())]
        reply = await reply_of(adapter)
        assert isinstance(reply, Reply)
        texts += [repr(adapter), repr(vars(adapter)), repr(fiber.config), str(fiber.effects())]
        assert KEY in server.asked[-1].headers["authorization"]
        assert KEY not in str(server.asked[-1].body)
    assert caplog.records
    texts += [caplog.text, *(repr(vars(record)) for record in caplog.records)]
    assert not [text for text in texts if KEY in text]
    assert any("[key]" in text for text in texts)


async def test_halves_of_characters_break_neither_request_nor_reply(kind: str) -> None:
    """Those that belong together are joined; one that is alone is shown as missing."""
    high, low = "\ud83d", "\ude00"
    request = ModelRequest("m", messages=[Message("user", f"a{high}{low} b{low} \u00e9")])
    text = {"type": "text", "text": ""}
    deltas = [{"type": "text_delta", "text": half} for half in (high, low)]
    says = {
        "openai": openai_says(chunk({"content": high}), chunk({"content": low}, finish="stop")),
        "anthropic": anthropic_says(message_start(), *block(0, text, *deltas), *message_end()),
    }
    async with serving(says[kind]) as server, adapter_for(kind, server) as adapter:
        *events, reply = await read(adapter, request)
        assert "a\U0001f600 b\ufffd \u00e9" in str(server.asked[0].body["messages"])
        assert isinstance(reply, Reply)
        assert reply.message.text == "\U0001f600"
        assert events == [TextDelta("\ufffd")] * 2


async def test_a_redirection_is_followed_and_an_error_of_any_length_is_short(kind: str) -> None:
    """To the same server; and a message is cut where it gets too long."""

    async def elsewhere(answer: Answer) -> None:
        await answer.head(307, {"location": answer.asked.path + "?moved"})
        await answer.end()

    async def tells(answer: Answer) -> None:
        await answer.json(400, error_body(kind, "x", "no " * 10_000))

    async with (
        serving(elsewhere, HELLOS[kind], tells) as server,
        adapter_for(kind, server) as adapter,
    ):
        assert (await reply_of(adapter)).message.text == "Hi"
        assert [one.path.endswith("?moved") for one in server.asked] == [False, True]
        assert len(str(await fault(adapter))) < 1100
