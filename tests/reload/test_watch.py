"""Batches of what has really changed, from real events."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

import anyio
import pytest

from harness_core.reload import Batch, Roots, WatchingUnavailableError, watch
from harness_core.reload.snapshot import Snapshot

pytestmark = pytest.mark.asyncio

DEADLINE = 20.0


class Watching:
    """A watch under way, whose batches are waited for."""

    def __init__(self, root: Path, batches: anyio.abc.ObjectReceiveStream[Batch]) -> None:
        self.root = root
        self._batches = batches
        self._marks = 0

    async def next(self) -> Batch:
        with anyio.fail_after(DEADLINE):
            return await self._batches.receive()

    async def next_names(self) -> dict[str, set[str]]:
        return names_in(await self.next(), self.root)

    async def until_now(self) -> list[Batch]:
        """Return every batch up to now: a file of its own marks the end."""
        self._marks += 1
        mark = self.root / f"mark{self._marks}.py"
        mark.write_text("")
        seen: list[Batch] = []
        while True:
            batch = await self.next()
            if mark in batch.added:
                return seen if len(batch.files) == 1 else [*seen, batch]
            seen.append(batch)


def names_in(batch: Batch, root: Path) -> dict[str, set[str]]:
    kinds = {"changed": batch.changed, "added": batch.added, "deleted": batch.deleted}
    return {
        kind: {str(path.relative_to(root)) for path in paths}
        for kind, paths in kinds.items()
        if paths
    }


@asynccontextmanager
async def watching(
    root: Path, *, quiet: float = 0.05, files: Callable[[], Iterable[Path]] = tuple
) -> AsyncIterator[Watching]:
    started = anyio.Event()
    send, receive = anyio.create_memory_object_stream[Batch](100)

    async def consume() -> None:
        async with aclosing(watch([root], quiet=quiet, files=files, started=started)) as batches:
            async for batch in batches:
                await send.send(batch)

    async with send, receive, anyio.create_task_group() as tasks:
        tasks.start_soon(consume)
        with anyio.fail_after(DEADLINE):
            await started.wait()
        yield Watching(root, receive)
        tasks.cancel_scope.cancel()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path.resolve() / "root"
    root.mkdir()
    (root / "one.py").write_text("VALUE = 1")
    (root / "pack").mkdir()
    (root / "pack" / "two.py").write_text("VALUE = 1")
    return root


async def test_a_write_in_place_is_a_change(root: Path) -> None:
    async with watching(root) as seen:
        (root / "one.py").write_text("VALUE = 2")
        assert await seen.next_names() == {"changed": {"one.py"}}


async def test_a_write_and_rename_is_a_change_each_time(root: Path) -> None:
    async with watching(root) as seen:
        for value in (2, 3, 4):
            beside = root / ".one.py.swp"
            beside.write_text(f"VALUE = {value}")
            os.replace(beside, root / "one.py")
            assert await seen.next_names() == {"changed": {"one.py"}}


async def test_new_and_deleted_files_are_told_apart(root: Path) -> None:
    async with watching(root) as seen:
        (root / "three.py").write_text("")
        assert await seen.next_names() == {"added": {"three.py"}}
        (root / "one.py").unlink()
        assert await seen.next_names() == {"deleted": {"one.py"}}


async def test_a_rename_is_a_deletion_and_an_addition(root: Path) -> None:
    async with watching(root) as seen:
        (root / "one.py").rename(root / "uno.py")
        assert await seen.next_names() == {"deleted": {"one.py"}, "added": {"uno.py"}}


async def test_a_new_package_is_seen_whole(root: Path) -> None:
    async with watching(root) as seen:
        deep = root / "fresh" / "inner"
        deep.mkdir(parents=True)
        for path in (root / "fresh" / "__init__.py", deep / "__init__.py", deep / "leaf.py"):
            path.write_text("")
        batch = names_in(await seen.next(), root)
        for more in await seen.until_now():
            batch["added"] |= names_in(more, root)["added"]
        batch["added"] -= {"mark1.py"}
        assert batch == {
            "added": {"fresh/__init__.py", "fresh/inner/__init__.py", "fresh/inner/leaf.py"}
        }
        (deep / "leaf.py").write_text("VALUE = 2")
        assert await seen.next_names() == {"changed": {"fresh/inner/leaf.py"}}


async def test_a_package_that_is_renamed_or_removed_is_seen_whole(root: Path) -> None:
    async with watching(root) as seen:
        (root / "pack").rename(root / "bundle")
        assert await seen.next_names() == {"deleted": {"pack/two.py"}, "added": {"bundle/two.py"}}
        (root / "bundle" / "two.py").unlink()
        (root / "bundle").rmdir()
        assert await seen.next_names() == {"deleted": {"bundle/two.py"}}


async def test_rapid_saves_are_one_batch_with_the_final_state(root: Path) -> None:
    async with watching(root, quiet=0.3) as seen:
        for value in range(20):
            (root / "one.py").write_text(f"VALUE = {value}")
        (root / "gone.py").write_text("")
        (root / "gone.py").unlink()
        assert await seen.next_names() == {"changed": {"one.py"}}
        assert await seen.until_now() == []


async def test_a_touch_and_the_same_text_again_are_no_change(root: Path) -> None:
    async with watching(root) as seen:
        os.utime(root / "one.py")
        (root / "one.py").write_text("VALUE = 1")
        (root / "one.py").write_text("VALUE = 2")
        (root / "one.py").write_text("VALUE = 1")
        beside = root / "beside.txt"
        beside.write_text("VALUE = 1")
        os.replace(beside, root / "pack" / "two.py")
        assert await seen.until_now() == []


async def test_two_saves_of_equal_size_and_time_are_two_changes(root: Path) -> None:
    async with watching(root) as seen:
        for value in (2, 3, 4):
            (root / "one.py").write_text(f"VALUE = {value}")
            os.utime(root / "one.py", ns=(10**18, 10**18))
            assert await seen.next_names() == {"changed": {"one.py"}}


async def test_files_that_do_not_matter_make_no_batch(root: Path) -> None:
    async with watching(root) as seen:
        for name in (".git/x.py", "__pycache__/x.py", "node_modules/x.py", "notes.txt"):
            path = root / name
            path.parent.mkdir(exist_ok=True)
            path.write_text("")
        assert await seen.until_now() == []


async def test_named_files_matter_below_the_roots_and_elsewhere(root: Path) -> None:
    inside, outside = root / "prompt.md", root.parent / "elsewhere.md"
    for path in (inside, outside):
        path.write_text("one")
    named: list[Path] = []
    async with watching(root, files=lambda: tuple(named)) as seen:
        inside.write_text("two")
        assert await seen.until_now() == []
        named += [inside, outside]
        inside.write_text("three")
        assert await seen.next() == Batch(changed=frozenset({inside}))
        outside.write_text("two")
        assert await seen.next() == Batch(changed=frozenset({outside}))
        inside.unlink()
        assert await seen.next() == Batch(deleted=frozenset({inside}))


async def test_a_save_while_a_batch_is_worked_on_is_in_the_next_one(root: Path) -> None:
    started = anyio.Event()
    async with (
        aclosing(watch([root], started=started)) as batches,
        anyio.create_task_group() as tasks,
    ):

        async def save_first() -> None:
            await started.wait()
            (root / "one.py").write_text("VALUE = 2")

        tasks.start_soon(save_first)
        with anyio.fail_after(DEADLINE):
            for value in range(3, 13):
                assert names_in(await anext(batches), root) == {"changed": {"one.py"}}
                # The consumer works; the file is saved meanwhile, once and once more.
                (root / "one.py").write_text(f"VALUE = {value}0")
                (root / "one.py").write_text(f"VALUE = {value}")
            assert names_in(await anext(batches), root) == {"changed": {"one.py"}}


async def test_a_git_checkout_of_two_hundred_files_is_one_batch(root: Path) -> None:
    def git(*args: str) -> None:
        subprocess.run(
            ["git", "-c", "user.name=a", "-c", "user.email=a@b", *args],
            cwd=root,
            check=True,
            capture_output=True,
        )

    git("init", "-q", "-b", "main")
    for number in range(200):
        (root / f"module{number}.py").write_text("VALUE = 1")
    git("add", ".")
    git("commit", "-qm", "one")
    git("checkout", "-qb", "other")
    for number in range(200):
        path = root / f"module{number}.py"
        if number % 4:
            path.write_text("VALUE = 2")
        else:
            path.rename(root / f"renamed{number}.py")
    git("add", "-A")
    git("commit", "-qm", "two")
    async with watching(root) as seen:
        await anyio.to_thread.run_sync(git, "checkout", "-q", "main")
        batch = await seen.next()
        assert (len(batch.changed), len(batch.added), len(batch.deleted)) == (150, 50, 50)
        assert await seen.until_now() == []


async def test_a_root_that_is_removed_and_made_anew_is_watched_again(root: Path) -> None:
    inner = root / "pack"
    async with watching(inner) as seen:
        (inner / "two.py").unlink()
        inner.rmdir()
        assert await seen.next_names() == {"deleted": {"two.py"}}
        inner.mkdir()
        (inner / "two.py").write_text("VALUE = 2")
        assert await seen.next_names() == {"added": {"two.py"}}
        (inner / "two.py").write_text("VALUE = 3")
        assert await seen.next_names() == {"changed": {"two.py"}}


async def test_a_lost_event_is_made_good_after_the_next_batch(root: Path) -> None:
    roots = Roots([root])
    snapshot = Snapshot(roots)
    snapshot.scan()
    (root / "one.py").write_text("VALUE = 2")
    (root / "pack" / "two.py").write_text("VALUE = 2")
    assert snapshot.look_at([str(root / "one.py")]).changed == {root / "one.py"}
    assert snapshot.scan().changed == {root / "pack" / "two.py"}
    assert not snapshot.scan()


async def test_cancelling_ends_the_watch_at_once_and_leaves_no_thread(root: Path) -> None:
    def descriptors() -> int:
        return len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0

    async with watching(root):
        pass  # starts what the loop keeps for itself
    threads, open_files = threading.active_count(), descriptors()
    for _ in range(5):
        with anyio.fail_after(5):
            async with watching(root) as seen:
                (root / "one.py").write_text(os.urandom(4).hex())
                await seen.next()
    assert threading.active_count() <= threads
    with anyio.fail_after(DEADLINE):
        # The library closes them in a thread of its own, which nothing tells of.
        while descriptors() > open_files:  # noqa: ASYNC110
            await anyio.sleep(0.001)


async def test_without_watchfiles_the_message_says_what_to_install(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "watchfiles", None)
    monkeypatch.setitem(sys.modules, "watchfiles._rust_notify", None)
    with pytest.raises(WatchingUnavailableError, match=r"install harness-core\[reload\]"):
        await anext(watch([root]))
