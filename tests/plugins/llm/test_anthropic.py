"""`llm_anthropic`: what it sends, what is cached, and what it makes of events."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from harness_plugins.llm.api import (
    Message,
    ModelError,
    ModelRequest,
    RateLimit,
    Reply,
    TextDelta,
    Thinking,
    ThinkingDelta,
    ToolRequest,
    ToolRequestDelta,
    Usage,
    as_data,
    message_from,
)
from harness_plugins.llm_anthropic import Config
from harness_plugins.llm_anthropic.adapter import AnthropicAdapter
from hypothesis import given, settings
from hypothesis import strategies as st

from harness_core.prompt import ToolSchema

from .server import Answer, serving
from .speak import (
    ANTHROPIC_HELLO,
    adapter_for,
    anthropic_says,
    block,
    message_end,
    message_start,
    read,
    reply_of,
)

MARK = {"type": "ephemeral"}


def body_of(request: ModelRequest, **config: Any) -> dict[str, Any]:
    """Return what would be sent."""
    return AnthropicAdapter.of(Config(**config), "").body_of(request)


def marks_in(node: object) -> int:
    """Return how many cache breakpoints there are."""
    if isinstance(node, dict):
        return ("cache_control" in node) + sum(map(marks_in, node.values()))
    return sum(map(marks_in, node)) if isinstance(node, list) else 0


@pytest.mark.asyncio
async def test_a_request_goes_out_whole() -> None:
    """System, messages of all roles, tools, limits, options; three parts marked for the cache."""
    request = ModelRequest(
        "m-1",
        "Stable. Volatile.",
        [
            Message("user", "Hello"),
            Message(
                "assistant",
                "I look.",
                requests=[ToolRequest("a", "look", '{"n": 1}'), ToolRequest("b", "look", "{oops")],
                thinking=[
                    Thinking("hm", "sig", "anthropic"),
                    Thinking("", "blob", "anthropic", is_redacted=True),
                    Thinking("theirs", "sig", "other"),
                    Thinking("unsigned", "", "anthropic"),
                ],
            ),
            Message("tool", "found", call_id="a"),
            Message("tool", "bad", call_id="b", is_error=True),
            Message("user", "Go on"),
        ],
        [ToolSchema("look"), ToolSchema("list", "List.")],
        stable=8,
        max_tokens=7,
        temperature=0.5,
        options={"top_k": 5},
    )
    async with (
        serving(ANTHROPIC_HELLO) as server,
        adapter_for("anthropic", server, options={"service_tier": "auto"}) as adapter,
    ):
        await reply_of(adapter, request)
        asked = server.asked[0]
        assert asked.path == "/v1/messages"
        empty = {"type": "object", "properties": {}}
        assert asked.body == {
            "model": "m-1",
            "max_tokens": 7,
            "temperature": 0.5,
            "stream": True,
            "service_tier": "auto",
            "top_k": 5,
            "system": [
                {"type": "text", "text": "Stable. ", "cache_control": MARK},
                {"type": "text", "text": "Volatile."},
            ],
            "tools": [
                {"name": "look", "description": "", "input_schema": empty},
                {
                    "name": "list",
                    "description": "List.",
                    "input_schema": empty,
                    "cache_control": MARK,
                },
            ],
            "messages": [
                {"role": "user", "content": [{"type": "text", "text": "Hello"}]},
                {
                    "role": "assistant",
                    "content": [
                        {"type": "thinking", "thinking": "hm", "signature": "sig"},
                        {"type": "redacted_thinking", "data": "blob"},
                        {"type": "text", "text": "I look."},
                        {"type": "tool_use", "id": "a", "name": "look", "input": {"n": 1}},
                        {
                            "type": "tool_use",
                            "id": "b",
                            "name": "look",
                            "input": {"INVALID_JSON": "{oops"},
                        },
                    ],
                },
                {
                    "role": "user",
                    "content": [
                        {"type": "tool_result", "tool_use_id": "a", "content": "found"},
                        {
                            "type": "tool_result",
                            "tool_use_id": "b",
                            "content": "bad",
                            "is_error": True,
                        },
                        {"type": "text", "text": "Go on", "cache_control": MARK},
                    ],
                },
            ],
        }


@pytest.mark.parametrize(
    ("system", "stable", "blocks", "marked"),
    [
        ("All of it.", None, ["All of it."], 0),
        ("All of it.", 10, ["All of it."], 0),
        ("All of it.", 99, ["All of it."], 0),
        ("One. Two.", 4, ["One.", " Two."], 0),
        ("None.", 0, ["None."], None),
        ("None.", -3, ["None."], None),
        ("Rest is blank. \n", 14, ["Rest is blank. \n"], 0),
        ("\n Begin is blank.", 2, ["\n Begin is blank."], None),
    ],
)
def test_the_system_text_is_cut_where_it_stops_being_stable(
    system: str, stable: int | None, blocks: list[str], marked: int | None
) -> None:
    """Nothing is lost, no block is blank, and the mark is at the end of the stable part."""
    sent = body_of(ModelRequest("m", system, stable=stable))["system"]
    assert [one["text"] for one in sent] == blocks
    assert [index for index, one in enumerate(sent) if "cache_control" in one] == (
        [] if marked is None else [marked]
    )


@pytest.mark.parametrize(("cache", "mark"), [("5m", MARK), ("1h", {**MARK, "ttl": "1h"})])
def test_the_cache_lasts_as_long_as_the_config_says(cache: str, mark: dict[str, str]) -> None:
    """Or is not used at all."""
    request = ModelRequest("m", "Be brief.", [Message("user", "Hi")], [ToolSchema("look")])
    body = body_of(request, cache=cache)
    assert body["system"][0]["cache_control"] == mark
    assert marks_in(body) == 3
    assert marks_in(body_of(request, cache="off")) == 0


def test_what_goes_without_saying_is_not_said() -> None:
    """A blank system text, no tools; but a limit there must be."""
    assert body_of(ModelRequest("m", " \n")) == {
        "model": "m",
        "max_tokens": 8192,
        "messages": [],
        "stream": True,
    }
    assert body_of(ModelRequest("m"), max_tokens=5)["max_tokens"] == 5


MESSAGES = st.lists(
    st.one_of(
        st.builds(Message, st.just("user"), st.sampled_from(["", " ", "Hello", "Go on"])),
        st.builds(
            Message,
            st.just("assistant"),
            st.sampled_from(["", "Yes."]),
            requests=st.lists(st.builds(ToolRequest, st.sampled_from(["a", "b:0"]), st.just("t"))),
            thinking=st.lists(
                st.builds(Thinking, st.just("hm"), st.sampled_from(["", "s"]), st.just("anthropic"))
            ),
        ),
        st.builds(
            Message, st.just("tool"), st.sampled_from(["", "ok"]), call_id=st.sampled_from("ab")
        ),
    ),
    max_size=8,
)


@settings(max_examples=60, deadline=None)
@given(MESSAGES, st.integers(-1, 12))
def test_roles_alternate_and_no_block_is_blank_whatever_the_history(
    messages: list[Message], stable: int
) -> None:
    """No text is lost either; results come first in their turn; at most four marks, one on top."""
    tools = [ToolSchema("t")]
    body = body_of(ModelRequest("m", "Stable. Not.", messages, tools, stable=stable))
    turns = body["messages"]
    assert all(one["role"] != two["role"] for one, two in pairwise(turns))
    assert all(turn["content"] for turn in turns)
    blocks = [one for turn in turns for one in turn["content"]]
    assert all(one["text"].strip() for one in blocks if one["type"] == "text")
    said = [one.text for one in messages if one.role != "tool" and one.text.strip()]
    assert sorted(one["text"] for one in blocks if one["type"] == "text") == sorted(said)
    told = [one.get("content") for one in blocks if one["type"] == "tool_result"]
    assert all(text is None or text.strip() for text in told)
    results = sum(one["type"] == "tool_result" for one in blocks)
    assert results == sum(one.role == "tool" for one in messages)
    for turn in turns:
        kinds = [one["type"] == "tool_result" for one in turn["content"]]
        assert kinds == sorted(kinds, reverse=True)
    assert marks_in(body) <= 4
    assert not any("cache_control" in one for one in blocks if one["type"].endswith("thinking"))


@pytest.mark.asyncio
async def test_all_kinds_of_blocks_are_streamed_and_kept() -> None:
    """Thoughts with their signatures, text, tools in fragments; new kinds are passed by."""
    says = anthropic_says(
        message_start(input_tokens=10, cache_read_input_tokens=70, cache_creation_input_tokens=20),
        {"type": "ping"},
        *block(
            0,
            {"type": "thinking", "thinking": "", "signature": ""},
            {"type": "thinking_delta", "thinking": "Let me "},
            {"type": "thinking_delta", "thinking": "see."},
            {"type": "signature_delta", "signature": "sig=="},
        ),
        *block(1, {"type": "redacted_thinking", "data": "blob"}),
        *block(2, {"type": "text", "text": ""}, {"type": "text_delta", "text": "I look."}),
        *block(
            3,
            {"type": "tool_use", "id": "t1", "name": "look", "input": {}},
            {"type": "input_json_delta", "partial_json": ""},
            {"type": "input_json_delta", "partial_json": '{"n":'},
            {"type": "input_json_delta", "partial_json": " 1}"},
        ),
        *block(4, {"type": "tool_use", "id": "t2", "name": "list", "input": {}}),
        *block(5, {"type": "tool_use", "id": "t3", "name": "look", "input": {"n": 2}}),
        *block(6, {"type": "newly_invented", "x": 1}, {"type": "newly_delta", "x": 2}),
        {"type": "newly_event"},
        *message_end("tool_use", output_tokens=30),
    )
    async with serving(says) as server, adapter_for("anthropic", server) as adapter:
        *events, reply = await read(adapter)
        assert events == [
            ThinkingDelta("Let me "),
            ThinkingDelta("see."),
            TextDelta("I look."),
            ToolRequestDelta("t1", "look"),
            ToolRequestDelta("t1", arguments='{"n":'),
            ToolRequestDelta("t1", arguments=" 1}"),
            ToolRequestDelta("t2", "list"),
            ToolRequestDelta("t3", "look"),
        ]
        message = Message(
            "assistant",
            "I look.",
            requests=[
                ToolRequest("t1", "look", '{"n": 1}'),
                ToolRequest("t2", "list", "{}"),
                ToolRequest("t3", "look", '{"n": 2}'),
            ],
            thinking=[
                Thinking("Let me see.", "sig==", "anthropic"),
                Thinking("", "blob", "anthropic", is_redacted=True),
            ],
        )
        usage = Usage(input_tokens=100, output_tokens=30, cached_tokens=70, cache_written_tokens=20)
        assert reply == Reply(message, "tools", usage, "m-1-2026")


@pytest.mark.asyncio
async def test_thoughts_between_texts_go_back_to_their_places() -> None:
    """The API wants the blocks of a reply as it sent them."""
    thoughts = [
        {"type": "thinking", "thinking": text, "signature": f"sig {text}"}
        for text in ("one", "two")
    ]
    texts = [{"type": "text", "text": "I look. "}, {"type": "text", "text": "And now?"}]
    call = {"type": "tool_use", "id": "a", "name": "look", "input": {"n": 1}}
    blocks = [thoughts[0], texts[0], thoughts[1], texts[1], call]
    says = anthropic_says(
        message_start(),
        *(event for index, one in enumerate(blocks) for event in block(index, one)),
        *message_end("tool_use"),
    )
    async with serving(says) as server, adapter_for("anthropic", server) as adapter:
        message = (await reply_of(adapter)).message
    assert message_from(as_data(message)) == message
    (turn,) = body_of(ModelRequest("m", messages=[message]))["messages"]
    assert turn["content"] == [*blocks[:-1], {**call, "cache_control": MARK}]
    (other,) = body_of(ModelRequest("m", messages=[message]), provider="other")["messages"]
    assert [one.get("text") for one in other["content"]] == ["I look. And now?", None]


@pytest.mark.asyncio
async def test_arguments_that_were_cut_off_are_not_made_up() -> None:
    """A call without arguments and one that lost them are not the same."""
    says = anthropic_says(
        message_start(),
        *block(0, {"type": "tool_use", "id": "a", "name": "list", "input": {}}),
        *block(1, {"type": "tool_use", "id": "b", "name": "wipe", "input": {}}),
        *message_end("max_tokens"),
    )
    async with serving(says) as server, adapter_for("anthropic", server) as adapter:
        first, last = (await reply_of(adapter)).message.requests
        assert (first.arguments, last.arguments) == ("{}", "")


@pytest.mark.parametrize(
    ("reason", "stop"),
    [
        ("end_turn", "end"),
        ("stop_sequence", "end"),
        ("tool_use", "tools"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("refusal", "refused"),
        ("pause_turn", "other"),
    ],
)
@pytest.mark.asyncio
async def test_the_reason_to_stop_is_told(reason: str, stop: str) -> None:
    """In the words that all adapters share."""
    says = anthropic_says(message_start(), *message_end(reason))
    async with serving(says) as server, adapter_for("anthropic", server) as adapter:
        assert (await reply_of(adapter)).stop == stop


@pytest.mark.asyncio
async def test_limits_are_read_from_the_headers_by_the_clock_of_the_server() -> None:
    """The scarcest tokens and the longest time count."""
    says = anthropic_says(
        message_start(),
        *message_end(),
        headers={
            "date": "Mon, 01 Jan 2024 00:00:00 GMT",
            "anthropic-ratelimit-requests-remaining": "49",
            "anthropic-ratelimit-requests-reset": "2024-01-01T00:00:10Z",
            "anthropic-ratelimit-input-tokens-remaining": "9000",
            "anthropic-ratelimit-output-tokens-remaining": "800",
            "anthropic-ratelimit-output-tokens-reset": "2024-01-01T00:01:30Z",
        },
    )
    async with (
        serving(says, ANTHROPIC_HELLO) as server,
        adapter_for("anthropic", server) as adapter,
    ):
        assert (await reply_of(adapter)).limits == RateLimit(49, 800, 90.0)
        assert (await reply_of(adapter)).limits is None


@pytest.mark.asyncio
async def test_ids_that_others_gave_are_put_in_letters_that_it_takes() -> None:
    """The same for the request and its result, and for no other."""
    requests = [ToolRequest("functions.look:0", "look"), ToolRequest("functions.look:1", "look")]
    history = [
        Message("user", "Hello"),
        Message("assistant", requests=requests),
        *(Message("tool", "x", call_id=one.id) for one in requests),
    ]
    first, second = body_of(ModelRequest("m", messages=history))["messages"][1:]
    used = [one["id"] for one in first["content"]]
    assert [one["tool_use_id"] for one in second["content"]] == used
    assert len(set(used)) == 2
    assert all(one.replace("_", "").isalnum() for one in used)


@pytest.mark.asyncio
async def test_a_block_that_never_began_is_no_reply() -> None:
    """It is a fault of the stream, and says so."""
    lost = {
        "type": "content_block_delta",
        "index": 5,
        "delta": {"type": "text_delta", "text": "x"},
    }
    says = anthropic_says(message_start(), lost)
    async with serving(says) as server, adapter_for("anthropic", server) as adapter:
        with pytest.raises(ModelError, match="block 5, which never began") as raised:
            await read(adapter)
        assert raised.value.kind == "protocol"


@pytest.mark.asyncio
async def test_a_tool_that_the_provider_counts_is_named() -> None:
    """Its message knows a number, and who reads it knows names."""

    async def respond(answer: Answer) -> None:
        message = "tools.1.custom.input_schema: no oneOf at the top level; tools.9: what"
        error = {"type": "invalid_request_error", "message": message}
        await answer.json(400, {"type": "error", "error": error})

    request = ModelRequest("m", tools=[ToolSchema("list"), ToolSchema("fs.look")])
    async with serving(respond) as server, adapter_for("anthropic", server) as adapter:
        with pytest.raises(ModelError) as raised:
            await read(adapter, request)
        assert raised.value.kind == "invalid-request"
        assert 'tools.1 ("fs.look").custom.input_schema: no oneOf' in str(raised.value)
        assert "tools.9: what" in str(raised.value)
