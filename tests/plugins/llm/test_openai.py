"""`llm_openai`: what it sends, and what it makes of chunks."""

from __future__ import annotations

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
)

from harness_core.prompt import ToolSchema

from .server import Answer, serving
from .speak import HELLO, OPENAI_HELLO, adapter_for, chunk, fragment, openai_says, read, reply_of

pytestmark = pytest.mark.asyncio


async def test_a_request_goes_out_whole() -> None:
    """System, messages of all roles, tools, limits; options as they are."""
    request = ModelRequest(
        "m-1",
        "Be brief.",
        [
            Message("user", "Hello"),
            Message("assistant", requests=[ToolRequest("c1", "look", '{"a": 1}')]),
            Message("tool", "found", call_id="c1"),
            Message("assistant", "There.", thinking=[Thinking("hm", provider="openai")]),
            Message("user", "Thanks"),
        ],
        [ToolSchema("look", "Look.", {"type": "object", "properties": {"a": {}}})],
        max_tokens=7,
        temperature=0.5,
        options={"top_p": 0.1},
        agent="nobody is told",
    )
    async with (
        serving(OPENAI_HELLO) as server,
        adapter_for("openai", server, options={"seed": 1, "top_p": 0.9}) as adapter,
    ):
        await reply_of(adapter, request)
        assert server.asked[0].path == "/v1/chat/completions"
        call = {"name": "look", "arguments": '{"a": 1}'}
        function = {
            "name": "look",
            "description": "Look.",
            "parameters": {"type": "object", "properties": {"a": {}}},
        }
        assert server.asked[0].body == {
            "model": "m-1",
            "messages": [
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": "Hello"},
                {
                    "role": "assistant",
                    "content": None,
                    "tool_calls": [{"id": "c1", "type": "function", "function": call}],
                },
                {"role": "tool", "tool_call_id": "c1", "content": "found"},
                {"role": "assistant", "content": "There."},
                {"role": "user", "content": "Thanks"},
            ],
            "tools": [{"type": "function", "function": function}],
            "stream": True,
            "stream_options": {"include_usage": True},
            "max_tokens": 7,
            "temperature": 0.5,
            "seed": 1,
            "top_p": 0.1,
        }


async def test_the_config_says_what_a_request_leaves_open() -> None:
    """Model, limit, headers, provider."""
    config = {"model": "m-2", "max_tokens": 9, "headers": {"x-team": "blue"}, "provider": "deep"}
    async with serving(OPENAI_HELLO) as server, adapter_for("openai", server, **config) as adapter:
        assert (adapter.provider, adapter.model) == ("deep", "m-2")
        await reply_of(adapter, ModelRequest(""))
        asked = server.asked[0]
        assert (asked.body["model"], asked.body["max_tokens"]) == ("m-2", 9)
        assert asked.headers["x-team"] == "blue"


async def test_openai_itself_is_told_the_new_name_of_the_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its newer models refuse the old one."""
    from harness_plugins.llm_openai import Config
    from harness_plugins.llm_openai.adapter import OpenAIAdapter

    request = ModelRequest("m-1", max_tokens=7)
    body = OpenAIAdapter.of(Config(), "").body_of(request)
    assert (body.get("max_completion_tokens"), body.get("max_tokens")) == (7, None)
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:1")
    body = OpenAIAdapter.of(Config(), "").body_of(request)
    assert (body.get("max_completion_tokens"), body.get("max_tokens")) == (None, 7)


async def test_other_servers_are_not_told_whose_account_it_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Organisation and project of the environment are for OpenAI."""
    monkeypatch.setenv("OPENAI_ORG_ID", "org-1")
    monkeypatch.setenv("OPENAI_PROJECT_ID", "proj-1")
    async with serving(OPENAI_HELLO) as server, adapter_for("openai", server) as adapter:
        await reply_of(adapter)
        names = set(server.asked[0].headers)
        assert not {"openai-organization", "openai-project"} & names


async def test_text_and_thoughts_come_as_they_are_streamed() -> None:
    """And the reply holds them whole, with the model's own name."""
    says = openai_says(
        chunk({"role": "assistant", "content": ""}),
        chunk({"reasoning_content": "Let me "}),
        chunk({"reasoning": "see."}),
        chunk({"content": "Hel"}),
        chunk({"content": "lo"}),
        chunk({}, finish="stop"),
    )
    async with serving(says) as server, adapter_for("openai", server) as adapter:
        *events, reply = await read(adapter)
        assert events == [
            ThinkingDelta("Let me "),
            ThinkingDelta("see."),
            TextDelta("Hel"),
            TextDelta("lo"),
        ]
        thinking = [Thinking("Let me see.", provider="openai")]
        assert reply == Reply(Message("assistant", "Hello", thinking=thinking), model="m-1-2026")


async def test_tool_calls_in_fragments_are_put_together() -> None:
    """Two at once, their fragments mixed; the text of the arguments exactly as it came."""
    says = openai_says(
        chunk(fragment(0, "", id="a", name="read")),
        chunk(fragment(0, '{"pa')),
        chunk(fragment(1, "", id="b", name="list")),
        chunk(fragment(1, "")),
        chunk(fragment(0, 'th":  "é"')),
        chunk(fragment(0, "}")),
        chunk({}, finish="tool_calls"),
    )
    async with serving(says) as server, adapter_for("openai", server) as adapter:
        *events, reply = await read(adapter)
        assert events == [
            ToolRequestDelta("a", "read"),
            ToolRequestDelta("a", arguments='{"pa'),
            ToolRequestDelta("b", "list"),
            ToolRequestDelta("a", arguments='th":  "é"'),
            ToolRequestDelta("a", arguments="}"),
        ]
        assert isinstance(reply, Reply)
        assert reply.stop == "tools"
        assert reply.message.requests == (
            ToolRequest("a", "read", '{"path":  "é"}'),
            ToolRequest("b", "list", "{}"),
        )


async def test_servers_that_count_badly_are_understood() -> None:
    """All calls at index 0, each with its id; no id at all; arguments as an object; "stop"."""
    says = openai_says(
        chunk(fragment(0, '{"n": 1}', id="a", name="read")),
        chunk(fragment(0, '{"n": 2}', id="b", name="read")),
        chunk({"tool_calls": [{"index": 1, "function": {"name": "read", "arguments": {"n": 3}}}]}),
        chunk({}, finish="stop"),
    )
    async with serving(says) as server, adapter_for("openai", server) as adapter:
        reply = await reply_of(adapter)
        first, second, third = reply.message.requests
        assert (first, second) == (
            ToolRequest("a", "read", '{"n": 1}'),
            ToolRequest("b", "read", '{"n": 2}'),
        )
        assert third.arguments == '{"n": 3}'
        assert third.id.startswith("call_")
        assert reply.stop == "tools"


async def test_arguments_that_were_cut_off_are_not_made_up() -> None:
    """A call without arguments and one that lost them are not the same."""
    says = openai_says(
        chunk(fragment(0, "", id="a", name="list")),
        chunk(fragment(1, "", id="b", name="wipe")),
        chunk({}, finish="length"),
    )
    async with serving(says) as server, adapter_for("openai", server) as adapter:
        first, last = (await reply_of(adapter)).message.requests
        assert (first.arguments, last.arguments) == ("{}", "")


@pytest.mark.parametrize(
    ("reason", "stop"),
    [
        ("stop", "end"),
        ("length", "length"),
        ("content_filter", "refused"),
        ("tool_calls", "tools"),
        ("what is new", "other"),
    ],
)
async def test_the_reason_to_stop_is_told(reason: str, stop: str) -> None:
    """In the words that all adapters share."""
    says = openai_says(chunk({"content": "Hi"}, finish=reason))
    async with serving(says) as server, adapter_for("openai", server) as adapter:
        assert (await reply_of(adapter)).stop == stop


async def test_only_the_first_choice_counts_and_names_are_not_taken_back() -> None:
    """Somebody may ask for several; some servers leave the model out of later chunks."""
    other = {"index": 1, "delta": {"content": "Ho"}, "finish_reason": "length"}
    says = openai_says(
        chunk({"content": "Hi"}),
        {**chunk(), "choices": [other]},
        {**chunk({}, finish="stop"), "model": ""},
    )
    async with serving(says) as server, adapter_for("openai", server) as adapter:
        reply = await reply_of(adapter)
        assert (reply.message.text, reply.stop, reply.model) == ("Hi", "end", "m-1-2026")


async def test_a_refusal_is_text_and_says_so() -> None:
    """It is the model's answer."""
    says = openai_says(chunk({"refusal": "No."}), chunk({}, finish="stop"))
    async with serving(says) as server, adapter_for("openai", server) as adapter:
        reply = await reply_of(adapter)
        assert (reply.message.text, reply.stop) == ("No.", "refused")


async def test_a_server_that_gives_up_is_overloaded() -> None:
    """Not a reply, however it ends the stream."""
    says = openai_says(chunk({"content": "Hi"}, finish="insufficient_system_resource"))
    async with serving(says) as server, adapter_for("openai", server) as adapter:
        with pytest.raises(ModelError, match="gave up in the middle") as raised:
            await read(adapter)
        assert raised.value.kind == "overloaded"


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        (
            {
                "prompt_tokens": 100,
                "completion_tokens": 5,
                "total_tokens": 105,
                "prompt_tokens_details": {"cached_tokens": 64},
            },
            Usage(100, 5, 64),
        ),
        (
            {
                "prompt_tokens": 100,
                "completion_tokens": 5,
                "total_tokens": 105,
                "prompt_cache_hit_tokens": 80,
                "prompt_cache_miss_tokens": 20,
            },
            Usage(100, 5, 80),
        ),
        ({"prompt_tokens": 3, "completion_tokens": None, "total_tokens": 3}, Usage(3)),
        (None, Usage()),
    ],
)
async def test_usage_counts_what_was_cached(usage: object, expected: Usage) -> None:
    """As OpenAI says it, as DeepSeek does, by halves, and not at all."""
    ends = [chunk(usage=usage)] if usage else []
    says = openai_says(chunk({"content": "Hi"}), chunk({}, finish="stop"), *ends)
    async with serving(says) as server, adapter_for("openai", server) as adapter:
        assert (await reply_of(adapter)).usage == expected


async def test_limits_are_read_from_the_headers() -> None:
    """The longer of the two times counts."""
    says = openai_says(
        chunk({"content": "Hi"}, finish="stop"),
        headers={
            "x-ratelimit-remaining-requests": "59",
            "x-ratelimit-remaining-tokens": "149984",
            "x-ratelimit-reset-requests": "120ms",
            "x-ratelimit-reset-tokens": "6m0.5s",
        },
    )
    async with serving(says, OPENAI_HELLO) as server, adapter_for("openai", server) as adapter:
        assert (await reply_of(adapter)).limits == RateLimit(59, 149984, 360.5)
        assert (await reply_of(adapter)).limits is None


async def test_thoughts_go_back_within_their_turn_if_asked_for() -> None:
    """To the provider they are from; those of earlier turns and of others stay here."""
    messages = [
        Message("user", "One"),
        Message("assistant", "First.", thinking=[Thinking("old", provider="openai")]),
        Message("user", "Two"),
        Message(
            "assistant",
            requests=[ToolRequest("c1", "look")],
            thinking=[Thinking("mine", provider="openai"), Thinking("not", provider="other")],
        ),
        Message("tool", "found", call_id="c1"),
    ]
    async with (
        serving(OPENAI_HELLO) as server,
        adapter_for("openai", server, return_thinking=True) as adapter,
    ):
        await reply_of(adapter, ModelRequest("m-1", messages=messages))
        sent = server.asked[0].body["messages"]
        assert [one.get("reasoning_content") for one in sent] == [None, None, None, "mine", None]


async def test_a_reply_that_is_whole_counts_though_the_connection_breaks() -> None:
    """Only the end of the stream is missing."""

    async def respond(answer: Answer) -> None:
        await answer.head()
        await answer.event(chunk({"content": "Hi"}, finish="stop"))
        await answer.cut()

    async with serving(respond) as server, adapter_for("openai", server) as adapter:
        assert (await reply_of(adapter, HELLO)).message.text == "Hi"


async def test_names_of_tools_are_translated_both_ways() -> None:
    """Those that the provider does not take; in the request, the history, and the reply."""
    name = "files.read — all"
    tools = [ToolSchema(name), ToolSchema("plain_name-1")]
    history = [
        Message("user", "Hello"),
        Message("assistant", requests=[ToolRequest("a", name)]),
        Message("tool", "x", call_id="a"),
    ]
    request = ModelRequest("m-1", messages=history, tools=tools)

    async def respond(answer: Answer) -> None:
        body = answer.asked.body
        sent = [tool["function"]["name"] for tool in body["tools"]]
        assert sent[1] == "plain_name-1"
        assert sent[0].startswith("files_read_all_")
        assert body["messages"][1]["tool_calls"][0]["function"]["name"] == sent[0]
        call = chunk(fragment(0, "{}", id="b", name=sent[0]))
        await openai_says(call, chunk({}, finish="tool_calls"))(answer)

    async with serving(respond) as server, adapter_for("openai", server) as adapter:
        delta, reply = await read(adapter, request)
        assert delta == ToolRequestDelta("b", name, "{}")
        assert isinstance(reply, Reply)
        assert reply.message.requests == (ToolRequest("b", name, "{}"),)


@pytest.mark.parametrize("delta", [fragment(0, "{}", id="a"), {"tool_calls": [{"index": 0}]}])
async def test_a_call_without_a_name_is_no_reply(delta: dict[str, object]) -> None:
    """Nobody could answer it."""
    says = openai_says(chunk(delta), chunk({}, finish="tool_calls"))
    async with serving(says) as server, adapter_for("openai", server) as adapter:
        with pytest.raises(ModelError, match="does not name it") as raised:
            await read(adapter)
        assert raised.value.kind == "protocol"
