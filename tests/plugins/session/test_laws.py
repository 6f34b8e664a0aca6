"""Laws of histories, over any conversation: compactions, snapshots, forks."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from tempfile import TemporaryDirectory
from typing import Any

import anyio
from harness_plugins.llm.api import Message
from harness_plugins.session.api import Draft, LogEvent, Session, compact, project, snapshot_of
from harness_plugins.session.exchanges import find_exchanges
from harness_plugins.session.history import GONE
from hypothesis import given, settings
from hypothesis import strategies as st

from harness_core.prompt import AssembledContext, PromptAssembly, render_context_snapshot

from .test_history import naive
from .words import answer, ask, assistant, store, user


def in_loop(law: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Run an asynchronous law in an event loop of its own."""

    @functools.wraps(law)
    def run(*args: Any, **drawn: Any) -> None:
        anyio.run(functools.partial(law, *args, **drawn))

    return run


async def count(messages: Sequence[Message]) -> str:
    return f"{len(messages)} messages"


SAID = ("user", "pinned", "assistant", "ask", "answer")


async def say(session: Session, name: str, number: int, data: st.DataObject) -> None:
    """Go on with a conversation, as far as its rules allow."""
    unanswered = session.history.unanswered
    if name == "answer":
        if unanswered:
            await session.add(answer(data.draw(st.sampled_from(unanswered)).id))
    elif unanswered:
        return  # it goes on when all requests have their results
    elif name == "ask":
        await session.add(ask(*data.draw(st.sampled_from([("a",), ("a", "b"), ("c", "a", "b")]))))
    else:
        one = assistant(str(number)) if name == "assistant" else user(str(number))
        await session.add(one, pinned=name == "pinned")


# Compaction


@given(st.lists(st.sampled_from([*SAID, "snapshot", "compact", "compact"]), max_size=40), st.data())
@in_loop
async def test_no_compaction_tears_apart_loses_or_goes_on_for_ever(
    names: list[str], data: st.DataObject
) -> None:
    """In any conversation, at any moment."""
    session = Session("s")
    for number, name in enumerate(names):
        if name == "compact":
            await compact_and_check(session, data.draw(st.integers(0, 6)))
        elif name == "snapshot":
            await session.append("snapshot", text=str(number))
        else:
            await say(session, name, number, data)
    assert project(session.events) == session.history


async def compact_and_check(session: Session, keep: int) -> None:
    before = session.history
    event = await compact(session, count, keep=keep)
    after = session.history
    # As many requests as results, each result behind its request; what is open stays open.
    results = [one for one in after.messages if one.role == "tool"]
    answered = [one for one in find_exchanges(after.messages) if one.answered is not None]
    assert len(results) == len(answered)
    assert after.unanswered == before.unanswered
    # What is pinned and the last messages are there, in their order.
    pinned = [one.seq for one in session.events if one.data.get("pinned")]
    assert [one.seq for one in after.entries if one.is_pinned] == pinned
    said = [one.seq for one in before.entries if one.kind == "message"]
    kept = said[len(said) - keep :] if keep else []
    assert [one.seq for one in after.entries if one.seq in kept] == kept
    if event is None:
        assert after is before
        return
    assert sum(one.kind == "compaction" for one in after.entries) == 1
    assert len(after.entries) <= len(before.entries)
    assert await compact(session, count, keep=keep) is None  # there is an end of it


# Snapshots


def assembly(texts: Sequence[str]) -> PromptAssembly:
    return PromptAssembly(contexts=[AssembledContext(f"c{i}", one) for i, one in enumerate(texts)])


CONTEXTS = st.sampled_from([(), ("",), ("a",), ("b",), ("a", "b")])


@given(st.lists(CONTEXTS | st.sampled_from(["user", "compact", "fork"]), max_size=30), st.data())
@in_loop
async def test_the_last_visible_snapshot_says_what_holds_and_none_is_said_twice(
    steps: list[Any], data: st.DataObject
) -> None:
    """Whatever comes and goes, is compacted, copied, or read again from the log alone."""
    session = Session("s")
    for number, step in enumerate(steps):
        if step == "compact":
            await compact(session, count, keep=data.draw(st.integers(0, 3)))
        elif step == "fork":
            session = Session("s", events=session.events)
        elif step == "user":
            await session.add(user(str(number)))
        else:
            await take_step(session, assembly(step))


async def take_step(session: Session, one: PromptAssembly) -> None:
    text = render_context_snapshot(one)
    before = session.history
    draft = snapshot_of(one, before)
    assert draft == snapshot_of(one, project(session.events))
    if draft is not None:
        await session.append_all([draft])
    visible = [entry.message.text for entry in session.history.entries if entry.kind == "snapshot"]
    # What the model reads last is what holds now: nothing at all, if there never was anything.
    assert (visible[-1] if visible else GONE) == (text or GONE)
    # Nothing is said that was visible already, nor that nothing holds where nothing was said.
    assert (draft is not None) == (text != (before.snapshot or ""))
    assert all(one != other for one, other in itertools.pairwise(visible))
    assert snapshot_of(one, session.history) is None


# The store


OPERATIONS = st.tuples(
    st.sampled_from(["add", "add", "batch", "compact", "fork", "reopen", "new process"]),
    st.integers(0, 5),
)


@settings(max_examples=15, deadline=None)
@given(st.lists(OPERATIONS, max_size=15))
@in_loop
async def test_sessions_in_a_store_are_lists_that_are_copied_and_added_to(
    operations: list[tuple[str, int]],
) -> None:
    """Whatever is appended, compacted, forked, closed and opened again, here or elsewhere."""
    with TemporaryDirectory() as directory:
        model: dict[str, list[LogEvent]] = {}
        names = itertools.count()
        async with AsyncExitStack() as stack:
            root = await stack.enter_async_context(store({"directory": directory}))
            session = await root.session.create("first")
            model["first"] = []
            for name, number in operations:
                log = model[session.id]
                if name == "add":
                    log.append(await session.add(user(str(number)), pinned=number == 0))
                elif name == "batch":
                    drafts = [Draft("mine", {"x": one}) for one in range(number)]
                    log += await session.append_all(drafts)
                elif name == "compact":
                    event = await compact(session, count, keep=number)
                    log += [event] if event is not None else []
                elif name == "fork":
                    at = len(log) * number // 5
                    session = await root.session.fork(session.id, at=at, new_id=f"s{next(names)}")
                    model[session.id] = [*log[:at], session.events[-1]]
                elif name == "reopen":
                    await session.close()
                    session = await root.session.open(session.id)
                else:
                    await stack.aclose()
                    root = await stack.enter_async_context(store({"directory": directory}))
                    session = await root.session.open(sorted(model)[number % len(model)])
                assert list(session.events) == model[session.id]
            for one_id, log in model.items():
                assert list(await root.session.read(one_id)) == log
                shown = [(one.seq, one.message.text) for one in project(log).entries]
                assert shown == [(one.seq, one.text) for one in naive(log)]
            infos = {one.id: (one.events, one.messages) for one in await root.session.list()}
            assert infos == {
                one_id: (len(log), sum(one.kind == "message" for one in log))
                for one_id, log in model.items()
            }
