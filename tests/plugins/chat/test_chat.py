"""`harness chat`: a conversation in the terminal, as a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from .terminal import PATH, Chat, chatting

MANIFEST = """\
- name: llm_scripted
  config:
    turns:
      - {when: {user: pages}, text: I look., tools: [{name: list_pages, arguments: {}}]}
      - {when: {user: pages}, text: There is one page.}
      - {when: {user: wait}, text: I wait., tools: [{name: wait, arguments: {}}]}
      - {when: {user: name}, text: You are Ada.}
      - {when: {user: hello}, text: Hello Ada.}
      - {when: {user: escape}, text: "\\e[2Jgone"}
    at_end: repeat
- name: tools
- name: ./style.py
- name: session
- name: agents
  config:
    agents:
      first: {persona: You are the first.}
      second: {persona: You are the second.}
"""
STYLE = """\
import anyio

inject = ["system_prompt", "tools"]


def apply(ctx):
    ctx.system_prompt.section("style", "Be brief.", order=10)

    @ctx.tools.register()
    def list_pages() -> list[str]:
        "List the pages."
        return ["boiling"]

    @ctx.tools.register()
    async def wait() -> str:
        "Wait for ever."
        await anyio.sleep_forever()
"""


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A harness with two agents, a session store and a plugin that can be changed."""
    (tmp_path / "harness.yaml").write_text(MANIFEST)
    (tmp_path / "style.py").write_text(STYLE)
    return tmp_path


def resumed(chat: Chat) -> str:
    """Return the id that the chat said it goes on with."""
    return chat.until("; /help").removesuffix("; /help").rpartition(" ")[2]


def session_of(chat: Chat) -> str:
    """Return the id that the chat said with the first message."""
    chat.until("a new session; /help lists commands\n")
    chat.say("hello")
    chat.until("session ")
    one = chat.until("\n").rstrip("\n")
    chat.until("out\n")
    return one


def test_text_and_tool_calls_are_shown_as_they_come(directory: Path) -> None:
    with chatting(directory, "harness.yaml") as chat:
        assert chat.until("lists commands\n").startswith("first, a new session;")
        chat.say("which pages?")
        told, *shown = chat.until("out\n").splitlines()
        assert told.startswith("session ")
        assert shown[:4] == [
            "I look.",
            "→ list_pages {}",
            '← list_pages ok: ["boiling"]',
            "There is one page.",
        ]
        assert shown[4].startswith("2 steps, ")
        assert chat.end() == 0


def test_an_agent_is_chosen_by_name(directory: Path) -> None:
    with chatting(directory, "harness.yaml", "--agent", "second") as chat:
        chat.until("second, a new session;")
        chat.say("/prompt")
        assert "You are the second." in chat.until("Tools")


def test_a_chat_in_which_nothing_is_said_leaves_no_session(directory: Path) -> None:
    with chatting(directory, "harness.yaml") as chat:
        chat.until("lists commands\n")
        chat.say("/prompt")
        chat.until("Tools")
        assert chat.end() == 0
    assert not (directory / ".harness").exists()


def test_an_unknown_agent_is_a_wrong_call(directory: Path) -> None:
    with chatting(directory, "harness.yaml", "--agent", "secnd") as chat:
        chat.until('there is no agent "secnd"')
        chat.until('did you mean "second"?')
        assert chat.process.wait(30) == 2


def test_a_session_is_resumed_in_another_process(directory: Path) -> None:
    with chatting(directory, "harness.yaml") as chat:
        one = session_of(chat)
        chat.say("hello, I am Ada")
        assert "session" not in chat.until("Hello Ada.\n")  # it is told once
        chat.until("out\n")
        assert chat.end() == 0
    with chatting(directory, "harness.yaml", "--resume", one) as chat:
        assert resumed(chat) == one
        chat.say("what is my name?")
        chat.until("You are Ada.\n")
        chat.until("out\n")
        assert chat.end() == 0
    with chatting(directory, "harness.yaml", "--resume", "nowhere") as chat:
        chat.until("nowhere")
        assert chat.process.wait(30) != 0


def test_two_chats_never_write_one_session(directory: Path) -> None:
    with chatting(directory, "harness.yaml") as chat:
        one = session_of(chat)
        with chatting(directory, "harness.yaml", "--resume", one) as other:
            assert f'session "{one}" is open' in other.until("fork it to go on here")
            assert other.process.wait(30) == 1


def test_a_reload_shows_what_became_of_the_prompt(directory: Path) -> None:
    with chatting(directory, "harness.yaml") as chat:
        chat.until("lists commands\n")
        chat.say("/diff")
        chat.until("nothing was sent yet")
        chat.say("hello")
        chat.until("out\n")
        chat.say("/diff")
        chat.until("the prompt is the one of the last step")
        chat.say("/reload")
        chat.until("nothing was saved since the last time")
        (directory / "style.py").write_text(STYLE.replace("Be brief", "Be very brief"))
        chat.say("/reload")
        assert "reloaded style" in chat.until('section "style" changed')
        chat.say("/diff")
        chat.until('section "style" changed')
        chat.say("/prompt")
        assert "Be very brief." in chat.until("Tools")


@pytest.mark.parametrize("store", [True, False], ids=["stored", "in memory"])
def test_an_agent_whose_row_was_changed_goes_on_with_its_conversation(
    directory: Path, store: bool
) -> None:
    manifest = MANIFEST if store else MANIFEST.replace("- name: session\n", "")
    (directory / "harness.yaml").write_text(manifest)
    with chatting(directory, "harness.yaml") as chat:
        one = session_of(chat)
        chat.say("which pages?")
        chat.until("out\n")
        changed = manifest.replace("You are the first.", "You are the very first.")
        (directory / "harness.yaml").write_text(changed)
        chat.say("/reload")
        chat.until("reloaded agents")
        chat.say("which pages, again?")
        chat.until("There is one page.\n")
        chat.until("out\n")
        chat.say("/prompt")
        chat.until("You are the very first.")
        (directory / "harness.yaml").write_text(changed.replace("first:", "other:"))
        chat.say("/reload")
        chat.until("reloaded agents")
        chat.say("hello?")
        chat.until("the agent first is gone")
        chat.end()
    if store:
        with chatting(directory, "harness.yaml", "--agent", "other", "--resume", one) as chat:
            assert resumed(chat) == one


def test_a_bad_save_costs_nothing(directory: Path) -> None:
    with chatting(directory, "harness.yaml") as chat:
        chat.until("lists commands\n")
        (directory / "style.py").write_text("def apply(:")
        chat.say("/reload")
        chat.until("failed style")
        chat.say("which pages?")
        chat.until("There is one page.")


def test_a_signal_ends_the_turn_and_then_the_chat(directory: Path) -> None:
    with chatting(directory, "harness.yaml") as chat:
        chat.until("lists commands\n")
        chat.say("which pages?")
        chat.until("There is one page.\n")
        chat.until("out\n")
        chat.say("wait for ever")
        chat.until("→ wait {}")
        chat.say("hello")
        chat.interrupt()
        chat.until("the turn was cancelled")
        chat.until("Hello Ada.\n")
        chat.until("out\n")
        chat.interrupt()
        assert chat.process.wait(30) == 0


def test_a_terminal_is_invited_and_shows_nothing_that_moves_its_cursor(directory: Path) -> None:
    with chatting(directory, "harness.yaml", terminal=True) as chat:
        chat.until("> ")
        chat.say("escape")
        chat.until("\\x1b[2Jgone")
        chat.until("> ")
        chat.say("/quit")
        assert chat.process.wait(30) == 0


def test_a_line_that_is_no_command_says_which_there_are(directory: Path) -> None:
    with chatting(directory, "harness.yaml") as chat:
        chat.until("lists commands\n")
        chat.say("/promt")
        chat.until('there is no /promt; did you mean "/prompt"?')
        chat.say("/help")
        chat.until("/quit")


@pytest.mark.parametrize("text", ["hello\n\nhello", ""], ids=["a file", "nothing"])
def test_lines_may_come_from_a_file_or_from_nowhere(directory: Path, text: str) -> None:
    (directory / "lines.txt").write_text(text)
    with open(directory / "lines.txt" if text else os.devnull, "rb") as given:
        done = subprocess.run(
            [sys.executable, "-W", "error", "-m", "harness_core.cli", "chat", "harness.yaml"],
            cwd=directory,
            env={**os.environ, "PYTHONPATH": PATH},
            stdin=given,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("Hello Ada.\n") == text.count("hello")


def test_a_pipe_whose_last_turn_failed_ends_with_a_fault(directory: Path) -> None:
    for last, code in (("hello", 0), ("nobody answers this", 1)):
        with chatting(directory, "harness.yaml") as chat:
            chat.say("nobody answers this")
            chat.until("the turn ended: model-failed")
            chat.say(last)
            chat.until("out\n" if code == 0 else "the turn ended: model-failed")
            assert chat.end() == code


def test_a_session_is_resumed_with_the_agent_that_it_is_of(directory: Path) -> None:
    with chatting(directory, "harness.yaml", "--agent", "second") as chat:
        chat.until("lists commands\n")
        chat.say("hello")
        one = chat.until("\n").removeprefix("session ").strip()
        chat.until("out\n")
        assert chat.end() == 0
    with chatting(directory, "harness.yaml", "--resume", one) as chat:
        chat.until(f"second, session {one}; ")
    with chatting(directory, "harness.yaml", "--resume", one, "--agent", "first") as chat:
        chat.until(f"first, session {one}; ")


def test_a_session_that_is_not_there_is_a_fault_in_plain_words(directory: Path) -> None:
    with chatting(directory, "harness.yaml", "--resume", "nowhere") as chat:
        said = chat.until('"nowhere"')
        assert said.startswith("error: ")
        assert ".py" not in said
        assert chat.process.wait(30) == 1


def test_without_declared_agents_there_is_one(tmp_path: Path) -> None:
    (tmp_path / "harness.yaml").write_text(
        "- name: llm_scripted\n  config: {turns: [{text: Yes.}]}\n- name: agents\n"
    )
    with chatting(tmp_path, "harness.yaml") as chat:
        chat.until("main, a new session;")
        chat.say("are you there?")
        chat.until("Yes.\n")


def test_without_agents_the_row_to_add_is_named(tmp_path: Path) -> None:
    (tmp_path / "harness.yaml").write_text("- name: workspace\n")
    with chatting(tmp_path, "harness.yaml") as chat:
        chat.until("add `- name: agents`")
        assert chat.process.wait(30) == 1
