"""`harness dev`: real saves of real files, and what it says about them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from .living import PATIENCE, Process, process, save

RULES = """\
name = "rules"
inject = ["system_prompt"]

def apply(ctx, config):
    ctx.system_prompt.section("rules", {text!r}, order=5)
"""

NOTES = """\
inject = ["system_prompt"]

def apply(ctx):
    text = ctx.watch_file({file!r})
    ctx.system_prompt.section("notes", text, order=6)
"""

OTHER = RULES.format(text="other").replace('"rules"', '"other"')
MANIFEST = "- name: ./rules.py\n- {id: place, name: workspace, config: {user: me}}\n"


def project(directory: Path) -> None:
    """Write a manifest and its plugin."""
    save(directory / "rules.py", RULES.format(text="one"))
    save(directory / "harness.yaml", MANIFEST)


def ready(running: Process) -> dict[str, Any]:
    """Wait until saves are seen."""
    return running.event(event="ready")


@pytest.mark.parametrize("how", ["in place", "by rename"])
def test_saves_of_code_rows_and_texts(tmp_path: Path, how: str) -> None:
    """Each is one event with the new prompt; a bad one costs nothing."""
    project(tmp_path)
    save(tmp_path / "notes.txt", "first")
    save(tmp_path / "notes.py", NOTES.format(file=str(tmp_path / "notes.txt")))
    with process(tmp_path, "dev", "harness.yaml", "--json") as running:
        event = ready(running)
        assert event["error"] is None
        assert "rules" in event["plugins"]
        assert event["scopes"]["global"].endswith("one")

        save(tmp_path / "rules.py", RULES.format(text="two"), how)
        event = running.event(event="reloaded")
        assert event["plugins"] == ["rules"]
        assert event["scopes"]["global"].endswith("two")
        assert event["error"] is None
        assert 0 < event["seconds"] < 20

        save(tmp_path / "rules.py", RULES.format(text="two") + "x = (\n", how)
        event = running.event(event="failed")
        assert event["plugins"] == ["rules"]
        assert event["error"]["file"].endswith("rules.py")
        assert event["error"]["line"] == 6
        assert "never closed" in event["error"]["message"]
        assert event["scopes"]["global"].endswith("two")

        broken = RULES.format(text="three") + "    raise ValueError('no luck')\n"
        save(tmp_path / "rules.py", broken, how)
        event = running.event(event="failed")
        assert (event["error"]["line"], event["scopes"]["global"][-3:]) == (6, "two")
        assert "no luck" in event["error"]["message"]

        save(tmp_path / "rules.py", RULES.format(text="four"), how)
        assert running.event(event="reloaded")["scopes"]["global"].endswith("four")

        save(tmp_path / "harness.yaml", MANIFEST + "- name: ./notes.py\n", how)
        event = running.event(event="reloaded")
        assert event["plugins"] == ["notes"]
        assert event["scopes"]["global"].endswith("four\n\nfirst")

        save(tmp_path / "notes.txt", "second", how)
        event = running.event(event="reloaded")
        assert event["plugins"] == ["notes"]
        assert event["scopes"]["global"].endswith("four\n\nsecond")

        save(tmp_path / "harness.yaml", MANIFEST + "- name: ./none.py\n", how)
        event = running.event(event="failed")
        assert event["error"]["file"].endswith("harness.yaml")
        assert event["error"]["line"] == 3
        assert event["scopes"]["global"].endswith("four\n\nsecond")

        save(tmp_path / "none.py", RULES.format(text="late").replace('"rules"', '"late"'), how)
        event = running.event(event="reloaded")
        assert event["scopes"]["global"].endswith("four\n\nlate")

        assert running.stop() == 0
        assert running.event(event="stopped")["scopes"] == {}
        assert running.rest(running.err) == ""


def test_code_and_rows_saved_together(tmp_path: Path) -> None:
    """A new setting in the code and in the row: whichever is looked at first, both run."""
    project(tmp_path)
    with process(tmp_path, "dev", "harness.yaml", "--json") as running:
        ready(running)
        new = "import attrs\n\n@attrs.frozen\nclass Config:\n    text: str\n\n" + RULES.format(
            text="x"
        ).replace("'x'", "config.text")
        save(tmp_path / "rules.py", new)
        save(tmp_path / "harness.yaml", "- {name: ./rules.py, config: {text: configured}}\n")
        while True:
            event = running.event()
            if event["scopes"].get("global", "").endswith("configured") and not event["error"]:
                break
        assert running.stop() == 0


def test_a_harness_that_starts_broken_comes_up_with_a_good_save(tmp_path: Path) -> None:
    """Rows that could not be imported, or whose body failed."""
    project(tmp_path)
    save(tmp_path / "rules.py", "x = (\n")
    save(
        tmp_path / "other.py",
        OTHER + "    1/0\n",
    )
    save(tmp_path / "harness.yaml", MANIFEST + "- name: ./other.py\n")
    with process(tmp_path, "dev", "harness.yaml", "--json") as running:
        event = ready(running)
        assert event["error"]["file"] == str(tmp_path / "harness.yaml")
        assert event["error"]["line"] == 1
        assert "rules.py:1" in event["error"]["message"]
        save(tmp_path / "rules.py", RULES.format(text="good"))
        event = running.event(event="reloaded")
        assert event["plugins"] == ["rules"]
        assert event["scopes"]["global"].endswith("good")
        save(tmp_path / "other.py", OTHER)
        event = running.event(event="reloaded")
        assert event["plugins"] == ["other"]
        assert event["scopes"]["global"].endswith("other\n\ngood")
        assert running.stop() == 0


def test_for_people_it_shows_differences_the_cache_and_what_is_stale(tmp_path: Path) -> None:
    """And the code around a fault."""
    project(tmp_path)
    with process(tmp_path, "dev", "harness.yaml", "--tree") as running:
        running.line(running.out, lambda line: line.startswith("ready  4 plugins"))
        save(tmp_path / "rules.py", RULES.format(text="two"))
        running.line(running.out, lambda line: line.startswith("reloaded rules"))
        running.line(running.out, lambda line: "% of the prompt cache" in line)
        line = running.line(running.out, lambda line: "~" in line)
        assert line == '    ~ section "rules" changed (text) by plugin "rules"\n'
        save(tmp_path / "rules.py", RULES.format(text="two") + "x = (\n")
        running.line(running.out, lambda line: line.startswith("failed rules"))
        line = running.line(running.out, lambda line: "error: " in line)
        assert line.startswith("  error: rules.py:6: SyntaxError")
        running.line(running.out, lambda line: line.startswith("    > 6 | x = ("))
        running.line(running.out, lambda line: line.startswith("  stale: root/rules"))
        running.line(running.out, lambda line: "stale: runs an older version" in line)
        save(
            tmp_path / "harness.yaml",
            "# more\n" + MANIFEST + "- {name: persona, config: {text: P}}\n",
        )
        running.line(running.out, lambda line: line == "  row: add persona\n")
        assert running.stop() == 0


def test_plugins_that_print_do_not_spoil_the_json(tmp_path: Path) -> None:
    """What they print goes to stderr."""
    project(tmp_path)
    save(tmp_path / "rules.py", "print('noise')\n" + RULES.format(text="one"))
    with process(tmp_path, "dev", "harness.yaml", "--json") as running:
        ready(running)
        assert running.seen == running.seen[:1]
        assert running.stop() == 0
        assert "noise" in running.rest(running.err)


def test_rows_that_wait_for_more_agents_and_helpers(tmp_path: Path) -> None:
    """A wrapped plugin, one that an agent holds, and a module that two plugins share."""
    package = tmp_path / "shared_house"
    package.mkdir()
    save(package / "__init__.py", "")
    save(package / "words.py", "WORD = 'one'\n")
    user = RULES.replace("{text!r}", "WORD").replace('"rules"', '"user"')
    save(package / "user.py", f"from .words import WORD\n\n{user}")
    save(tmp_path / "rules.py", RULES.format(text="mine"))
    save(
        tmp_path / "harness.yaml",
        "- {name: shared_house.user, inject: [agents]}\n"
        "- name: agents\n  config:\n    agents:\n      one:\n"
        "        plugins: [{name: ./rules.py}]\n",
    )
    with process(tmp_path, "dev", "harness.yaml", "--json") as running:
        scopes = ready(running)["scopes"]
        assert scopes["global"].endswith("one")
        assert "mine" in scopes["one"]
        assert "mine" not in scopes["global"]
        save(package / "words.py", "WORD = 'two'\n")
        event = running.event(event="reloaded")
        assert event["plugins"] == ["user"]
        assert event["scopes"]["global"].endswith("two")
        save(tmp_path / "rules.py", RULES.format(text="yours"))
        event = running.event(event="reloaded")
        assert event["plugins"] == ["rules"]
        assert "yours" in event["scopes"]["one"]
        save(
            tmp_path / "harness.yaml",
            (tmp_path / "harness.yaml").read_text().replace("one:\n", "one:\n        persona: P\n"),
        )
        event = running.event(event="reloaded")
        assert set(event["plugins"]) == {"agents", "user"}
        assert "P" in event["scopes"]["one"]
        assert "yours" in event["scopes"]["one"]
        assert running.stop() == 0
        assert running.rest(running.err) == ""


def test_a_save_while_plugins_load_is_not_lost(tmp_path: Path) -> None:
    """Neither of code that has been imported already, nor of the manifest."""
    project(tmp_path)
    slow = """\
import pathlib
import sys
import anyio

async def apply(ctx):
    print("loading", file=sys.stderr, flush=True)
    while not pathlib.Path("go").exists():
        await anyio.sleep(0.01)
"""
    save(tmp_path / "slow.py", slow)
    save(tmp_path / "harness.yaml", MANIFEST + "- name: ./slow.py\n")
    with process(tmp_path, "dev", "harness.yaml", "--json") as running:
        running.line(running.err, lambda line: line == "loading\n")
        save(tmp_path / "rules.py", RULES.format(text="two"))
        save(
            tmp_path / "harness.yaml",
            MANIFEST + "- name: ./slow.py\n- {name: persona, config: {text: P}}\n",
        )
        save(tmp_path / "go", "")
        assert ready(running)["scopes"]["global"].endswith("one")
        while True:
            text = running.event(event="reloaded")["scopes"]["global"]
            if "two" in text and "P" in text:
                break
        assert running.stop() == 0


def test_a_row_that_names_a_file_elsewhere_is_followed_there(tmp_path: Path) -> None:
    """Its directory was none of those that were watched at the start."""
    here, elsewhere = tmp_path / "here", tmp_path / "elsewhere"
    here.mkdir()
    elsewhere.mkdir()
    project(here)
    save(elsewhere / "other.py", OTHER)
    with process(here, "dev", "harness.yaml", "--json") as running:
        ready(running)
        save(here / "harness.yaml", f"{MANIFEST}- name: ../elsewhere/other.py\n")
        assert running.event()["plugins"] == ["other"]
        save(elsewhere / "other.py", OTHER.replace("'other'", "'another'"))
        event = running.event()  # the first is not taken for a save
        assert (event["event"], event["plugins"]) == ("reloaded", ["other"])
        assert "another" in event["scopes"]["global"]
        assert running.stop() == 0


@pytest.mark.parametrize("more", [(), ("--json",)], ids=["for people", "json"])
def test_who_is_not_read_any_more_ends(tmp_path: Path, more: tuple[str, ...]) -> None:
    """As with `| head -1`: in order, at the next thing there is to say, and without a word."""
    project(tmp_path)
    down = "\n    return lambda: open('down.txt', 'x').close()\n"
    save(tmp_path / "rules.py", RULES.format(text="one").rstrip() + down)
    with process(tmp_path, "dev", "harness.yaml", *more, piped=True) as running:
        stdout = running.process.stdout
        assert stdout is not None
        assert "ready" in stdout.readline()
        stdout.close()
        save(tmp_path / "other.py", OTHER)
        save(tmp_path / "harness.yaml", MANIFEST + "- name: ./other.py\n")
        assert running.process.wait(PATIENCE) == 1
        assert (tmp_path / "down.txt").exists()
        assert "Traceback" not in running.rest(running.err)


def test_many_saves_end_with_the_last(tmp_path: Path) -> None:
    """Of equal size and within a moment, code and rows; none is lost."""
    project(tmp_path)
    with process(tmp_path, "dev", "harness.yaml", "--json") as running:
        ready(running)
        for number in range(100, 140):
            save(tmp_path / "rules.py", RULES.format(text=str(number)), "by rename")
            save(
                tmp_path / "harness.yaml",
                MANIFEST + f"- {{name: persona, config: {{text: p{number}}}}}\n",
            )
        while True:
            event = running.event(event="reloaded")
            assert event["error"] is None
            if event["scopes"]["global"].endswith("p139\n\n139"):
                break
        assert running.stop() == 0
        assert running.rest(running.err) == ""
