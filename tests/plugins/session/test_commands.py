"""`harness sessions CONFIG`: what the manifest's store holds, on a terminal and as JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anyio
import pytest
from click.testing import CliRunner, Result
from harness_plugins.llm.api import Message, ToolRequest
from harness_plugins.session.api import LogEvent
from harness_plugins.session.commands import sessions

from .words import filled, store, user

MANIFEST = "- name: harness_plugins.session\n  id: session\n"


def invoke(*arguments: object) -> Result:
    return CliRunner().invoke(sessions, [str(one) for one in arguments])


@pytest.fixture
def manifest(tmp_path: Path) -> Path:
    """A manifest with two sessions in its store."""
    file = tmp_path / "harness.yaml"
    file.write_text(MANIFEST)

    async def fill() -> None:
        async with store({"directory": str(tmp_path / ".harness")}) as root:
            one = await root.session.create("one", agent="reviewer", title="Review\x1b[2J of it")
            await filled(
                user("look\x1b[31m here"),
                Message("assistant", "well", requests=(ToolRequest("a", "bash", '{"x": 1}'),)),
                Message("tool", "not found", call_id="a", is_error=True),
                session=one,
            )
            await one.append("snapshot", text="noon")
            await root.session.create("two")

    anyio.run(fill)
    return file


def test_the_list_is_what_one_gets_without_a_command(manifest: Path) -> None:
    """One line each; nothing in a title moves the cursor."""
    result = invoke(manifest)
    assert result.exit_code == 0, result.output
    assert result.output == invoke(manifest, "list").output
    lines = result.stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["two", "one"]
    assert lines[1].endswith("3 messages  reviewer  Review\\x1b[2J of it")
    assert [
        line.split()[0]
        for line in invoke(manifest, "list", "--agent", "reviewer").stdout.splitlines()
    ] == ["one"]


def test_the_list_as_json(manifest: Path) -> None:
    """Everything that is known, times in UTC."""
    found = json.loads(invoke(manifest, "list", "--json").stdout)
    assert [one["id"] for one in found] == ["two", "one"]
    assert found[1] | {"created_at": "", "last_at": ""} == {
        "id": "one",
        "agent": "reviewer",
        "title": "Review\x1b[2J of it",
        "created_at": "",
        "last_at": "",
        "events": 4,
        "messages": 3,
    }
    assert found[0]["last_at"] is None


def test_an_empty_store_says_so(tmp_path: Path) -> None:
    """On stderr: a script finds nothing to read."""
    file = tmp_path / "harness.yaml"
    file.write_text(MANIFEST)
    result = invoke(file)
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "no sessions\n")


def test_a_conversation_is_shown_as_a_model_would_see_it(manifest: Path) -> None:
    """Who spoke, when, what was called; other people's control characters as escapes."""
    result = invoke(manifest, "show", "one")
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines[0].startswith("user  1  2")
    assert "look\\x1b[31m here" in lines
    assert 'bash {"x": 1}' in lines
    assert [line for line in lines if line.startswith("tool") and line.endswith("failed")]
    assert any(line.startswith("runtime context  4") for line in lines)
    shown = json.loads(invoke(manifest, "show", "one", "--json").stdout)
    assert [(one["seq"], one["kind"], one["role"]) for one in shown] == [
        (1, "message", "user"),
        (2, "message", "assistant"),
        (3, "message", "tool"),
        (4, "snapshot", "user"),
    ]
    assert shown[1]["requests"] == [{"id": "a", "name": "bash", "arguments": '{"x": 1}'}]
    assert (shown[2]["call_id"], shown[2]["is_error"]) == ("a", True)


def test_an_export_is_the_log_and_nothing_else(manifest: Path) -> None:
    """One event a line."""
    result = invoke(manifest, "export", "one")
    events = [LogEvent.from_json(line) for line in result.stdout.split("\n")[:-1]]
    assert [one.seq for one in events] == [1, 2, 3, 4]


def test_a_fork_prints_the_id_of_the_copy(manifest: Path) -> None:
    """Up to an event, under a name, if these are given."""
    assert invoke(manifest, "fork", "one", "--at", 2, "--id", "copy").stdout == "copy\n"
    lines = invoke(manifest, "export", "copy").stdout.splitlines()
    assert [json.loads(line)["kind"] for line in lines] == ["message", "message", "forked"]
    other = invoke(manifest, "fork", "one").stdout.strip()
    assert json.loads(invoke(manifest, "list", "--json").stdout)[0]["id"] == other


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("show", "ome"), 'there is no session "ome"; sessions: two, one; did you mean "one"?'),
        (("export", "ome"), 'there is no session "ome"'),
        (("fork", "one", "--at", 9), "it cannot be forked at 9"),
        (("fork", "one", "--id", "two"), 'there is a session "two" already'),
    ],
)
def test_what_cannot_be_done_is_a_fault(
    arguments: tuple[Any, ...], problem: str, manifest: Path
) -> None:
    """On stderr, exit code 1, nothing on stdout."""
    result = invoke(manifest, *arguments)
    assert (result.exit_code, result.stdout) == (1, "")
    assert problem in result.stderr


def test_a_manifest_without_sessions_says_what_is_missing(tmp_path: Path) -> None:
    """Or why it is not there."""
    file = tmp_path / "harness.yaml"
    file.write_text("[]\n")
    result = invoke(file)
    assert result.exit_code == 1
    assert "no row provides the service session: mount the plugin session" in result.stderr
    file.write_text(MANIFEST + "  config: {timeout: -1}\n")
    result = invoke(file)
    assert result.exit_code == 1
    assert "timeout is -1" in result.stderr
    assert "no row provides" not in result.stderr
    assert invoke(tmp_path / "nothing.yaml").exit_code == 1
    assert invoke(file, "unknown").exit_code == 2
