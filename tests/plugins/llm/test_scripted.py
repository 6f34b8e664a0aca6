"""`llm_scripted`: replies that are written down, chosen by the request alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest
from harness_plugins import llm_scripted
from harness_plugins.llm.api import (
    Message,
    ModelAdapter,
    ModelError,
    ModelEvent,
    ModelRequest,
    Reply,
    TextDelta,
    Thinking,
    ThinkingDelta,
    ToolRequest,
    ToolRequestDelta,
    Usage,
    find_adapter,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from harness_core import Context
from harness_core.errors import ConfigError, ManifestError
from harness_core.testing import assert_no_residue, check_plugin, run_with_virtual_clock
from tests.loader.harness import running

from .speak import read, reply_of


async def adapter_in(root: Context, *turns: dict[str, Any], **config: Any) -> ModelAdapter:
    """Mount a script and return its adapter."""
    await root.plugin(llm_scripted, turns=list(turns), **config)
    return find_adapter(root, "scripted")


async def talk(adapter: ModelAdapter, *said: str, **fields: Any) -> list[str]:
    """Say one thing after the other; return the texts of the replies."""
    messages: list[Message] = []
    for text in said:
        messages.append(Message("user", text))
        request = ModelRequest("m", messages=messages, **fields)
        messages.append((await reply_of(adapter, request)).message)
    return [message.text for message in messages if message.role == "assistant"]


def request(*messages: Message, **fields: Any) -> ModelRequest:
    """Return a request with these messages."""
    return ModelRequest(fields.pop("model", "m"), messages=messages, **fields)


@pytest.mark.asyncio
async def test_a_turn_is_streamed_in_pieces_and_then_whole() -> None:
    """Thoughts and text word by word, tools in fragments; what it cost; why it stopped."""
    turn = {
        "thinking": "Let me see.",
        "text": "I  look.\nNow",
        "tools": [
            {"name": "look", "arguments": {"city": "Zürich"}},
            {"name": "bad", "raw": "{oops"},
        ],
        "usage": {"input": 100, "output": 9, "cached": 80, "cache_written": 7},
    }
    async with Context() as root:
        adapter = await adapter_in(root, turn, model="m-1")
        assert (adapter.provider, adapter.model) == ("scripted", "m-1")
        *events, reply = await read(adapter, ModelRequest(""))
        assert isinstance(reply, Reply)
        first, second = reply.message.requests
        assert events == [
            ThinkingDelta("Let "),
            ThinkingDelta("me "),
            ThinkingDelta("see."),
            TextDelta("I  "),
            TextDelta("look.\n"),
            TextDelta("Now"),
            ToolRequestDelta(first.id, "look", '{"city": '),
            ToolRequestDelta(first.id, arguments='"Zürich"}'),
            ToolRequestDelta(second.id, "bad", "{o"),
            ToolRequestDelta(second.id, arguments="ops"),
        ]
        assert first == ToolRequest(first.id, "look", '{"city": "Zürich"}')
        assert second == ToolRequest(second.id, "bad", "{oops")
        thinking = [Thinking("Let me see.", provider="scripted")]
        message = Message("assistant", "I  look.\nNow", requests=[first, second], thinking=thinking)
        assert reply == Reply(message, "tools", Usage(100, 9, 80, 7), "m-1")


@pytest.mark.asyncio
async def test_pieces_stop_and_usage_can_be_said() -> None:
    """Pieces as they are cut; any reason to stop; without usage, four characters are a token."""
    async with Context() as root:
        adapter = await adapter_in(root, {"pieces": ["Hel", "lo "], "stop": "length"})
        asked = ModelRequest("m", "12345678", [Message("user", "123")])
        first, second, reply = await read(adapter, asked)
        assert [first, second] == [TextDelta("Hel"), TextDelta("lo ")]
        assert reply == Reply(Message("assistant", "Hello "), "length", Usage(3, 2), "m")


@pytest.mark.asyncio
async def test_turns_reply_one_after_the_other() -> None:
    """And when none is left, that is an error that says so, or the script begins again."""
    turns = ({"text": "one"}, {"text": "two"})
    async with Context() as root:
        adapter = await adapter_in(root, *turns)
        assert await talk(adapter, "a", "b") == ["one", "two"]
        with pytest.raises(ModelError, match="turn 3 is wanted, and 2 fit") as raised:
            await talk(adapter, "a", "b", "c")
        assert raised.value.kind == "invalid-request"
        assert not raised.value.is_passing
        assert 'user: "c"' in str(raised.value)
    async with Context() as root:
        adapter = await adapter_in(root, *turns, at_end="repeat")
        assert await talk(adapter, *"abcde") == ["one", "two", "one", "two", "one"]
        await root.plugin(llm_scripted, turns=[], provider="empty")
        with pytest.raises(ModelError, match="none of 0 turns fits"):
            await read(find_adapter(root, "empty"))


@pytest.mark.asyncio
async def test_what_the_user_says_chooses_the_turns() -> None:
    """Whatever the case; from the first, each time it is said; the others count for themselves."""
    turns = (
        {"text": "sun"},
        {"when": {"user": "weather"}, "tools": [{"name": "forecast"}]},
        {"when": {"user": "weather"}, "text": "20 degrees"},
        {"text": "moon"},
        {"when": {"user": "bye"}, "text": "Bye."},
    )
    async with Context() as root:
        adapter = await adapter_in(root, *turns)
        asked = [Message("user", "The WEATHER?")]
        called = (await reply_of(adapter, request(*asked))).message
        assert [one.name for one in called.requests] == ["forecast"]
        asked += [called, Message("tool", "20", call_id=called.requests[0].id)]
        assert (await reply_of(adapter, request(*asked))).message.text == "20 degrees"
        said = ("Hello", "bye", "weather", "You", "bye bye", "weather again")
        assert await talk(adapter, *said) == ["sun", "Bye.", "", "moon", "Bye.", ""]


@pytest.mark.asyncio
async def test_a_snapshot_of_the_runtime_context_is_nothing_that_the_user_said() -> None:
    """It has the user's role, and comes between what she says and the reply."""
    async with Context() as root:
        adapter = await adapter_in(
            root, {"when": {"user": "weather"}, "text": "20"}, {"text": "none"}
        )
        snapshot = Message("user", "Current runtime context. This snapshot ...\n\nNew: weather")
        said = Message("user", "weather")
        for messages, text in (
            ([said, snapshot], "20"),
            ([snapshot, said], "20"),
            ([Message("user", "Hello"), snapshot], "none"),
        ):
            assert (await reply_of(adapter, request(*messages))).message.text == text


@pytest.mark.asyncio
async def test_agents_models_and_system_texts_have_turns_of_their_own() -> None:
    """Each counts its own replies; a turn that says nothing of them is for all."""
    turns = (
        {"when": {"agent": "scout"}, "text": "scouted"},
        {"when": {"model": "big"}, "text": "thought"},
        {"when": {"system": "REVIEWER"}, "text": "reviewed"},
        {"text": "all"},
    )
    async with Context() as root:
        adapter = await adapter_in(root, *turns)
        assert await talk(adapter, "a", "b", agent="scout") == ["scouted", "all"]
        assert await talk(adapter, "a", agent="scout 2") == ["all"]
        big = request(Message("user", "a"), model="big")
        assert (await reply_of(adapter, big)).message.text == "thought"
        assert await talk(adapter, "a", "b", system="A reviewer.") == ["reviewed", "all"]


SAID = st.lists(st.sampled_from(["weather", "Hello", "bye"]), min_size=1, max_size=5)


@settings(max_examples=20, deadline=None)
@given(SAID)
def test_the_same_request_has_the_same_reply_from_whichever_adapter(said: list[str]) -> None:
    """A conversation that is resumed in another process, or forked, goes on where it was."""
    turns = (
        {"when": {"user": "weather"}, "text": "20", "tools": [{"name": "t"}]},
        {"text": "one"},
        {"text": "two", "error": {"times": 2}},
    )

    async def main() -> None:
        async with Context() as root:
            await root.plugin(llm_scripted, turns=turns, at_end="repeat")
            await root.plugin(llm_scripted, turns=turns, at_end="repeat", provider="other")
            messages: list[Message] = []
            for text in said:
                messages.append(Message("user", text))
                asked = request(*messages)
                replies = [
                    await persistent(find_adapter(root, name), asked)
                    for name in ("scripted", "scripted", "other")
                ]
                assert replies[0] == replies[1] == replies[2]
                messages.append(replies[0].message)
            ids = [one.id for message in messages for one in message.requests]
            assert len(ids) == len(set(ids))

    anyio.run(main)


async def persistent(adapter: ModelAdapter, asked: ModelRequest) -> Reply:
    """Ask until there is a reply."""
    while True:
        try:
            return await reply_of(adapter, asked)
        except ModelError as error:
            assert error.is_passing


@pytest.mark.asyncio
async def test_a_turn_may_fail_before_it_replies() -> None:
    """As often as it says, for each request; with all that an error can tell."""
    error = {
        "kind": "rate-limited",
        "message": "slow down",
        "status": 429,
        "retry_after": 2,
        "times": 2,
    }
    async with Context() as root:
        adapter = await adapter_in(root, {"text": "Hi", "error": error})
        for _ in range(2):
            for _ in range(2):
                with pytest.raises(ModelError, match="slow down") as raised:
                    await read(adapter)
                found = raised.value
                facts = (found.kind, found.status, found.retry_after, found.provider)
                assert facts == ("rate-limited", 429, 2, "scripted")
            assert (await reply_of(adapter)).message.text == "Hi"


@pytest.mark.asyncio
async def test_a_turn_may_fail_for_ever_or_in_the_middle() -> None:
    """`times: 0` never replies; `after` counts the pieces that come first."""
    error = {"kind": "disconnected", "times": 0, "after": 2}
    async with Context() as root:
        adapter = await adapter_in(root, {"text": "one two three", "error": error})
        for _ in range(3):
            events: list[ModelEvent] = []
            stream = adapter.stream(request(Message("user", "a")))
            events += [await anext(stream), await anext(stream)]
            with pytest.raises(ModelError) as raised:
                await anext(stream)
            assert raised.value.kind == "disconnected"
            assert events == [TextDelta("one "), TextDelta("two ")]


def test_delay_and_pace_are_seconds_of_any_clock() -> None:
    """Before the first piece, and between pieces; a turn's own pace before that of the script."""

    async def main() -> None:
        async with Context() as root:
            adapter = await adapter_in(
                root,
                {"text": "one two three", "delay": 5},
                {"text": "one two three", "pace": 0},
                pace=0.5,
            )
            times: list[float] = []
            began = anyio.current_time()
            async for _ in adapter.stream(request(Message("user", "a"))):
                times.append(anyio.current_time() - began)
            assert times == pytest.approx([5, 5.5, 6, 6])
            began = anyio.current_time()
            await read(adapter, request(Message("user", "a"), Message("assistant", "b")))
            assert anyio.current_time() == pytest.approx(began)

    run_with_virtual_clock(main)


def test_a_reply_ends_with_its_plugin() -> None:
    """While it waits, between two pieces, and before it began."""

    async def main() -> None:
        async with Context() as root:
            await adapter_in(root, {"text": "a b", "delay": 100})
            fiber = await root.plugin(
                llm_scripted, turns=[{"text": "a b"}], provider="quick", at_end="repeat"
            )
            slow, quick = find_adapter(root, "scripted"), find_adapter(root, "quick")
            waiting, between = slow.stream(request()), quick.stream(request())
            assert await anext(between) == TextDelta("a ")

            async def is_told(stream: Any) -> None:
                with pytest.raises(ModelError, match="was unloaded") as raised:
                    await anext(stream)
                assert raised.value.kind == "disconnected"

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(is_told, waiting)
                await anyio.wait_all_tasks_blocked()
                await fiber.dispose()
                (other,) = [one for one in root.fiber.children if one is not fiber]
                await other.dispose()
            await is_told(between)
            await is_told(quick.stream(request()))
            assert anyio.current_time() < 90

    run_with_virtual_clock(main)


@pytest.mark.asyncio
async def test_it_leaves_nothing_behind_however_its_life_goes(tmp_path: Path) -> None:
    """Loaded, disposed, reloaded, with failures and cancellation wherever it waits."""
    file = tmp_path / "replies.yaml"
    file.write_text("- text: Hello\n")
    report = await check_plugin(llm_scripted, {"file": str(file)})
    assert report.ok, report
    async with Context() as root:
        await (await root.plugin(llm_scripted, file=str(file))).dispose()
        async with assert_no_residue(root, modules=True):
            fiber = await root.plugin(llm_scripted, file=str(file))
            assert (await reply_of(find_adapter(root))).message.text == "Hello"
            await fiber.dispose()


@pytest.mark.asyncio
async def test_a_file_starts_at_the_manifest_and_is_watched(tmp_path: Path) -> None:
    """A list, or a mapping with settings, which the config overrules; anchors and comments."""
    (tmp_path / "replies.yaml").write_bytes(
        b"\xef\xbb\xbf# replies\r\nat_end: repeat\r\npace: 3\r\nturns:\r\n"
        b"  - &hello {text: Hello}\r\n  - *hello\r\n  - <<: *hello\r\n    delay: 0\r\n"
    )
    manifest = """
        - name: harness_plugins.llm_scripted
          config: {file: replies.yaml, pace: 0}
        """
    async with running(tmp_path, manifest=manifest) as (root, _):
        assert await talk(find_adapter(root), *"abcd") == ["Hello"] * 4
        (fiber,) = [one for one in root.fiber.children if "scripted" in one.name]
        assert 'watched file "' in str(fiber.effects()).replace("'", '"')


@pytest.mark.parametrize(
    ("text", "place", "problem"),
    [
        ("- text: [\n", (2, 1), "not YAML"),
        ("- text: a\n  text: b\n", (2, 3), "duplicate key"),
        ("- text: 5\n", (1, 9), "expected text, got 5"),
        ("- text: a\n- txet: b\n", (2, 3), "unknown key 'txet', did you mean 'text'?"),
        ("turns:\n- tools: bash\n", (2, 10), "expected a list, got 'bash'"),
        ("turns:\n- tools:\n  - nmae: x\n", (3, 5), "unknown key 'nmae', did you mean 'name'?"),
        ("turns:\n- tools:\n  - arguments: {}\n", (3, 5), "required key 'name' is missing"),
        ("- error: {kind: bad}\n", (1, 17), "expected one of ['authentication', "),
        ("- delay: -1\n", (1, 3), "delay is -1: expected 0 or more"),
        ("- text: a\n  pieces: [b]\n", (1, 3), "text and pieces are both given"),
        ("- when: weather\n", (1, 9), "expected a mapping, got 'weather'"),
        ("- text: 2024-01-01\n", (1, 9), "expected text, got a date"),
        ("- text: !secret a\n", (1, 9), "write plain values"),
        ("- &a [*a]\n", (1, 7), ""),
        ("at_end: sometimes\nturns: []\n", (1, 9), "expected one of ['error', 'repeat']"),
        ("turns: []\nspeed: 1\n", (2, 8), "unknown key 'speed'"),
        ('- text: "a\x07"\n', (1, 11), "not YAML: the character U+0007"),
        ("just text\n", (1, 1), "expected turns, got 'just text'"),
        ("", (1, 1), "expected turns, got None"),
    ],
)
@pytest.mark.asyncio
async def test_a_fault_in_a_file_is_told_with_its_place(
    tmp_path: Path, text: str, place: tuple[int, int], problem: str
) -> None:
    """File, line and column, and what was expected there."""
    file = tmp_path / "replies.yaml"
    file.write_text(text)
    async with Context() as root:
        with pytest.raises(ManifestError) as raised:
            await root.plugin(llm_scripted, file=str(file))
        error = raised.value
        assert (error.file, error.line, error.column) == (str(file), *place)
        assert problem in str(error)


@pytest.mark.asyncio
async def test_a_file_that_multiplies_is_refused(tmp_path: Path) -> None:
    """A few lines of aliases that stand for millions of values."""
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 8)]
    file = tmp_path / "replies.yaml"
    file.write_text("\n".join(lines))
    async with Context() as root:
        with anyio.fail_after(10), pytest.raises(ManifestError, match="too many values"):
            await root.plugin(llm_scripted, file=str(file))


@pytest.mark.asyncio
async def test_a_file_that_cannot_be_read_says_why(tmp_path: Path) -> None:
    """It is missing, or no text."""
    (tmp_path / "latin.yaml").write_bytes(b"- text: caf\xe9\n")
    async with Context() as root:
        for name, problem in (("none.yaml", "No such file"), ("latin.yaml", "no UTF-8 text")):
            with pytest.raises(ManifestError, match=problem) as raised:
                await root.plugin(llm_scripted, file=str(tmp_path / name))
            assert raised.value.file == str(tmp_path / name)


@pytest.mark.parametrize(
    ("config", "problem"),
    [
        ({"turns": [{"text": "a"}, {"txet": "b"}]}, r"turns\[1\]: unknown key 'txet'"),
        ({}, "expected either file or turns"),
        ({"turns": [], "file": "x"}, "expected either file or turns"),
        ({"turns": [], "pace": -1}, "expected 0 or more seconds"),
        ({"turns": [], "at_end": "x"}, "at_end"),
    ],
)
@pytest.mark.asyncio
async def test_a_fault_in_the_config_is_told_with_its_path(
    config: dict[str, Any], problem: str
) -> None:
    """There is no line to name."""
    async with Context() as root:
        with pytest.raises(ConfigError, match=problem):
            await root.plugin(llm_scripted, config)
