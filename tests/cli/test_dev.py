"""`harness dev`: real saves of real files, and what it says about them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from .living import Process, process, save

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
        assert event["error"]["file"] is not None
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
