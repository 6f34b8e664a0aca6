"""`harness tree` while `harness dev` runs: the tree of that process, and nobody else's."""

from __future__ import annotations

import os
import signal
import socket
import stat
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import anyio
import pytest

from harness_core.cli import presence
from harness_core.cli.presence import PresenceError, find_present, present

from .conftest import Run
from .living import process as started
from .living import save
from .test_dev import RULES, project, ready


@pytest.fixture(autouse=True)
def runtime(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A directory of this test; short, as names of sockets must be."""
    with tempfile.TemporaryDirectory(prefix="h") as place:
        monkeypatch.setenv("XDG_RUNTIME_DIR", place)
        yield Path(place)


def sockets(runtime: Path) -> list[Path]:
    """Return the sockets that there are."""
    return list((runtime / "harness").glob("*"))


def test_what_is_stale_is_shown_until_a_good_save(tmp_path: Path, process: Run) -> None:
    """The code that is saved cannot run; the tree of a new process would say no more than that."""
    project(tmp_path)
    with started(tmp_path, "dev", "harness.yaml") as running:
        running.line(running.out, lambda line: line.startswith("ready"))
        ended = process("tree", "harness.yaml", cwd=tmp_path)
        assert (ended.code, ended.err.splitlines()) == (
            0,
            [f"as `harness dev` runs it, process {running.process.pid} (--fresh boots anew)"],
        )
        assert "stale" not in ended.out
        assert 'section "rules"  rules.py:5' in ended.out

        save(tmp_path / "rules.py", "x = (\n")
        running.line(running.out, lambda line: line.startswith("failed rules"))
        ended = process("tree", str(tmp_path / "harness.yaml"))
        assert ended.code == 0
        (line,) = [line for line in ended.out.splitlines() if "rules active" in line]
        assert line.endswith("stale: runs an older version of its code")
        assert ended.out.count("stale") == 1
        fresh = process("tree", "harness.yaml", "--fresh", cwd=tmp_path)
        assert (fresh.code, "stale" in fresh.out) == (1, False)
        assert "rules.py:1" in fresh.err
        without = process("tree", "harness.yaml", "--disable", "place", cwd=tmp_path)
        assert "place" not in without.out
        assert "harness dev" not in without.err

        save(tmp_path / "harness.yaml", "- {\n")
        running.line(running.out, lambda line: line.startswith("failed"))
        assert "stale" in process("tree", "harness.yaml", cwd=tmp_path).out

        project(tmp_path)
        running.line(running.out, lambda line: line.startswith("reloaded rules"))
        assert "stale" not in process("tree", "harness.yaml", cwd=tmp_path).out
        assert running.stop() == 0


def test_faults_of_the_running_process_are_reported(tmp_path: Path, process: Run) -> None:
    """The exit code is 1, as it would be for a process of its own."""
    project(tmp_path)
    save(tmp_path / "harness.yaml", "- name: ./rules.py\n- name: ./none.py\n")
    with started(tmp_path, "dev", "harness.yaml", "--json") as running:
        ready(running)
        ended = process("tree", "harness.yaml", cwd=tmp_path)
        assert ended.code == 1
        assert "rules active" in ended.out
        assert "none.py" in ended.err
        assert running.stop() == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_nothing_is_left_of_a_process_that_is_told_to_stop(
    tmp_path: Path, runtime: Path, number: int
) -> None:
    project(tmp_path)
    with started(tmp_path, "dev", "harness.yaml", "--json") as running:
        ready(running)
        (file,) = sockets(runtime)
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
        assert running.stop(number) == 0
    assert sockets(runtime) == []


def test_a_killed_process_is_not_taken_for_one_that_runs(
    tmp_path: Path, runtime: Path, process: Run
) -> None:
    """Its socket stays; the tree is booted anew, and the next process takes its place."""
    project(tmp_path)
    with started(tmp_path, "dev", "harness.yaml", "--json") as running:
        ready(running)
        running.stop(signal.SIGKILL)
    assert len(sockets(runtime)) == 1
    ended = process("tree", "harness.yaml", cwd=tmp_path)
    assert (ended.code, ended.err) == (0, "")
    assert "rules active" in ended.out
    with started(tmp_path, "dev", "harness.yaml", "--json") as running:
        ready(running)
        assert str(running.process.pid) in process("tree", "harness.yaml", cwd=tmp_path).err
        assert running.stop() == 0


def test_of_two_the_first_is_shown_as_long_as_it_runs(tmp_path: Path, process: Run) -> None:
    project(tmp_path)

    def shown() -> str:
        return process("tree", "harness.yaml", cwd=tmp_path).err

    with started(tmp_path, "dev", "harness.yaml", "--json") as first:
        ready(first)
        with started(tmp_path, "dev", "harness.yaml", "--json") as second:
            ready(second)
            assert f"process {first.process.pid} " in shown()
            assert second.stop() == 0
        assert f"process {first.process.pid} " in shown()
        assert first.stop() == 0
    assert shown() == ""


def unusable(runtime: Path, how: str) -> None:
    """Spoil the directory of sockets."""
    place = runtime / "harness"
    if how == "a link":
        (runtime / "other").mkdir(mode=0o700)
        place.symlink_to(runtime / "other")
    elif how == "open to others":
        place.mkdir()
        place.chmod(0o777)
    elif how == "a file":
        place.touch()


@pytest.mark.parametrize("how", ["a link", "open to others", "a file"])
def test_a_directory_that_cannot_be_trusted_is_not_used(
    tmp_path: Path, runtime: Path, process: Run, how: str
) -> None:
    """`dev` runs all the same, and `tree` boots. Both say it in a line."""
    project(tmp_path)
    unusable(runtime, how)
    with started(tmp_path, "dev", "harness.yaml", "--json") as running:
        ready(running)
        running.line(running.err, lambda line: "harness tree will not see this process" in line)
        ended = process("tree", "harness.yaml", cwd=tmp_path)
        assert ended.code == 0
        assert ended.err.startswith(f"warning: {runtime / 'harness'}")
        assert "rules active" in ended.out
        assert running.stop() == 0


def test_a_name_that_is_too_long_for_a_socket(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project(tmp_path)
    long = tmp_path / ("long" * 30)
    long.mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(long))
    with started(tmp_path, "dev", "harness.yaml", "--json") as running:
        ready(running)
        assert "path too long" in running.line(running.err, lambda line: "not see this" in line)
        assert running.stop() == 0


def connected(path: Path) -> socket.socket:
    """Return a connection that says and reads nothing."""
    other = socket.socket(socket.AF_UNIX)
    other.settimeout(10)
    other.connect(str(path))
    return other


def test_who_asks_strangely_disturbs_nobody(tmp_path: Path, runtime: Path, process: Run) -> None:
    """One never reads, one sends what nobody wants, one is gone at once."""
    project(tmp_path)
    with started(tmp_path, "dev", "harness.yaml", "--json") as running:
        ready(running)
        (path,) = sockets(runtime)
        with connected(path), connected(path) as rude:
            with suppress(BrokenPipeError):  # it has been told, and that was all
                rude.sendall(b"\0" * 4096)
            connected(path).close()
            assert str(running.process.pid) in process("tree", "harness.yaml", cwd=tmp_path).err
            save(tmp_path / "rules.py", RULES.format(text="two"))
            assert running.event(event="reloaded")["error"] is None
        assert running.stop() == 0
        assert running.rest(running.err) == ""


ODD = [
    b"",
    b"{",
    b"[]",
    b"\xff",
    b"[" * 100_000,
    b'{"process": 1}',
    b'{"process": 1, "tree": {"text": "a", "styles": 5, "below": []}, "faults": []}',
    b'{"process": 1, "tree": {"text": "a", "styles": [], "below": []}, "faults": [{"what": 1}]}',
]


@pytest.mark.parametrize("says", ODD, ids=range(len(ODD)))
def test_an_answer_that_cannot_be_read_is_warned_of_and_the_manifest_booted(
    tmp_path: Path, runtime: Path, process: Run, says: bytes
) -> None:
    """It was cut off, or another version of this program gave it."""
    project(tmp_path)
    with answering(tmp_path, runtime, says):
        ended = process("tree", "harness.yaml", cwd=tmp_path)
    assert ended.code == 0
    assert "rules active" in ended.out
    (line,) = ended.err.splitlines()
    assert line.startswith("warning: ")
    assert "as `harness dev` runs it" not in line


@contextmanager
def answering(directory: Path, runtime: Path, says: bytes) -> Iterator[None]:
    """Say this, for the block, to who asks for the tree of the manifest in a directory."""

    async def find_path() -> Path:
        async with present(directory / "harness.yaml", dict):
            (path,) = sockets(runtime)
            return path

    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(anyio.run(find_path)))
        listener.listen()
        listener.settimeout(10)

        def answer() -> None:
            stream, _ = listener.accept()
            with stream, suppress(ConnectionError):
                stream.sendall(says)

        thread = threading.Thread(target=answer)
        thread.start()
        yield
        thread.join()


@pytest.mark.asyncio
async def test_an_answer_without_end_is_not_kept(
    tmp_path: Path, runtime: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(presence, "LIMIT", 1000)
    async with present(tmp_path / "harness.yaml", lambda: {"text": "x" * 1_000_000}):
        with pytest.raises(PresenceError, match="cannot be read"):
            await find_present(tmp_path / "harness.yaml")


def test_a_process_that_does_not_answer_keeps_its_place(tmp_path: Path, process: Run) -> None:
    """It may only be suspended: what asks says so and goes its own way; then all is as before."""
    project(tmp_path)
    with started(tmp_path, "dev", "harness.yaml", "--json") as first:
        ready(first)
        first.process.send_signal(signal.SIGSTOP)
        ended = process("tree", "harness.yaml", cwd=tmp_path)
        assert (ended.code, "rules active" in ended.out) == (0, True)
        assert "does not answer" in ended.err
        with started(tmp_path, "dev", "harness.yaml", "--json") as second:
            ready(second)
            second.line(second.err, lambda line: "does not answer" in line)
            first.process.send_signal(signal.SIGCONT)
            shown = process("tree", "harness.yaml", cwd=tmp_path).err
            assert f"process {first.process.pid} " in shown
            assert second.stop() == 0
        assert first.stop() == 0


def test_names_are_shown_as_they_are(tmp_path: Path, process: Run) -> None:
    """Nothing in them is taken for a style or a picture."""
    name = r"a:bug:b [red]c[/red] w\\[x"
    project(tmp_path)
    text = RULES.format(text="one").replace('section("rules"', f'section("{name}"')
    save(tmp_path / "rules.py", text)
    with started(tmp_path, "dev", "harness.yaml", "--json") as running:
        ready(running)
        shown = process("tree", "harness.yaml", cwd=tmp_path)
        assert "as `harness dev` runs it" in shown.err
        fresh = process("tree", "harness.yaml", "--fresh", cwd=tmp_path)
        (line,) = [line for line in shown.out.splitlines() if ":bug:" in line]
        assert line in fresh.out.splitlines()
        assert "[red]c[/red]" in line
        assert running.stop() == 0


@pytest.mark.asyncio
async def test_what_cannot_be_told_disturbs_nobody(tmp_path: Path) -> None:
    """Who asks is told nothing, and the next one is answered."""
    answers = iter([{}, {"number": 7}])

    def tell() -> dict[str, int]:
        told = next(answers)
        return {"number": told["number"]}

    async with present(tmp_path / "harness.yaml", tell):
        with pytest.raises(PresenceError, match="cannot be read"):
            await find_present(tmp_path / "harness.yaml")
        assert await find_present(tmp_path / "harness.yaml") == {"number": 7}


@pytest.mark.asyncio
async def test_one_manifest_by_two_names_is_one(tmp_path: Path) -> None:
    """And another one is another."""
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    async with present(tmp_path / "real/harness.yaml", lambda: {"number": 7}) as is_first:
        assert is_first
        assert await find_present(tmp_path / "link/harness.yaml") == {"number": 7}
        assert await find_present(tmp_path / "real/other.yaml") is None
        async with present(tmp_path / "link/harness.yaml", dict) as is_second:
            assert not is_second


@pytest.mark.asyncio
async def test_where_there_are_no_such_sockets_nobody_is_present(
    tmp_path: Path, runtime: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(socket, "AF_UNIX")
    async with present(tmp_path / "harness.yaml", dict) as is_shown:
        assert not is_shown
        assert await find_present(tmp_path / "harness.yaml") is None
    assert not (runtime / "harness").exists()


@pytest.mark.asyncio
async def test_without_a_directory_of_the_user_it_is_one_beside_other_temporary_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, runtime: Path
) -> None:
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    monkeypatch.setattr(tempfile, "tempdir", str(runtime))
    async with present(tmp_path / "harness.yaml", dict):
        assert os.listdir(runtime) == [f"harness-{os.getuid()}"]
        assert await find_present(tmp_path / "harness.yaml") == {}
    (runtime / f"harness-{os.getuid()}").chmod(0o750)
    with pytest.raises(PresenceError, match="belongs to this user alone"):
        await find_present(tmp_path / "harness.yaml")


@pytest.mark.asyncio
async def test_what_goes_wrong_meanwhile_comes_through_as_it_is(tmp_path: Path) -> None:
    """A missing extra, for instance, is reported in its own words."""
    with pytest.raises(ValueError, match="my own words"):
        async with present(tmp_path / "harness.yaml", dict):
            raise ValueError("my own words")
    assert await find_present(tmp_path / "harness.yaml") is None
