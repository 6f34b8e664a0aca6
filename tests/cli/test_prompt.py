"""`harness prompt`: the request of each scope, for people, as JSON, raw, and as a picture."""

from __future__ import annotations

import json
import os
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path

import pytest

from .conftest import Run

Write = Callable[..., None]

AGENTS = """
- name: system_prompt
  config: {include_harness_identity: false, persona: Deployed.}
- name: workspace
  config: {cwd: /here, user: ada, platform: test}
- name: ./rules.py
- name: agents
  config:
    agents:
      main: {persona: "I am {{user}}."}
      helper:
        parent: main
        plugins: [{name: './rules.py:quiet'}]
"""

RULES = """
inject = ["system_prompt"]

def apply(ctx):
    sp = ctx.system_prompt
    sp.section("rules", "Be kind.", order=10)
    sp.section("guidance", "Use the other one.", order=120, requires_tools=("missing",))
    sp.context("clock", "It is late.", order=1)
    sp.tools(lambda: [{"name": "read", "description": "Reads.", "parameters": {
        "type": "object", "properties": {"path": {"type": "string"}, "n": {}}, "required": ["path"]
    }}])
    print("noise on stdout")

class Quiet:
    name = "quiet"
    inject = ["system_prompt"]

    def apply(self, ctx):
        ctx.system_prompt.section("rules", "Be quiet.", order=10)
        ctx.system_prompt.suppress_runtime_context()

quiet = Quiet()
"""


def test_every_agent_is_shown_with_who_wrote_what(write: Write, harness: Run) -> None:
    """Plugin, scope, order, what it replaces, and what is absent with the reason."""
    write(manifest=AGENTS, rules=RULES)
    ended = harness("prompt", "harness.yaml")
    assert ended.code == 0
    main, helper = ended.out.split(" helper ", 1)
    assert "deployment:persona  agents · main · order 0" in main
    assert "replaces that of system_prompt · global" in main
    assert "│ I am ada." in main
    assert "rules  rules · global · order 10" in main
    assert "○ guidance  rules · global · order 120\n    tool-hidden: requires tools" in main
    assert "read(path, n?)  rules · global" in main
    assert "sees main → global" in helper
    assert "rules  quiet · helper · order 10" in helper
    assert "replaces that of rules · global" in helper
    assert "○ clock  rules · global · order 1\n    suppressed: by plugin" in helper
    assert "at rules.py:20" in helper


def test_no_line_is_wider_than_a_hundred_columns_or_coloured_in_a_pipe(
    write: Write, harness: Run
) -> None:
    """Long words are broken, wide characters count twice."""
    long = "x" * 250 + " " + "漢" * 120 + " word" * 60
    write(manifest=AGENTS, rules=RULES.replace("Be kind.", long))
    out = harness("prompt", "harness.yaml", "--explain").out
    from rich.cells import cell_len

    assert max(map(cell_len, out.split("\n"))) <= 100
    assert "\x1b" not in out
    assert out.count("x" * 90) >= 2


def test_one_agent_or_the_global_layer(write: Write, harness: Run) -> None:
    """`--agent NAME`."""
    write(manifest=AGENTS, rules=RULES)
    helper = harness("prompt", "harness.yaml", "--agent", "helper")
    assert "Be quiet." in helper.out
    assert "\n main " not in helper.out
    everybody = harness("prompt", "harness.yaml", "--agent", "global")
    assert "Deployed." in everybody.out
    wrong = harness("prompt", "harness.yaml", "--agent", "helpr")
    assert (wrong.code, wrong.out) == (2, "noise on stdout\n")
    assert 'there is no agent "helpr"' in wrong.err
    assert 'did you mean "helper"?' in wrong.err


def test_without_agents_the_global_layer_is_shown(write: Write, harness: Run) -> None:
    """There is nothing else."""
    write(manifest="- {name: persona, config: {text: Hello.}}\n")
    ended = harness("prompt", "harness.yaml")
    assert ended.code == 0
    assert "You are an AI agent powered by DeepSeek Harness." in ended.out
    assert "│ Hello." in ended.out


def test_explain_says_where_when_and_what_is_absent(write: Write, harness: Run) -> None:
    """Lines, fibers, times, variables, and what is shadowed."""
    write(manifest=AGENTS, rules=RULES)
    out = harness("prompt", "harness.yaml", "--agent", "helper", "--explain").out
    assert "rules.py:19, fiber root/agents/" in out
    assert "○ rules  rules · global · order 10\n    shadowed: by plugin" in out
    assert "user = ada  workspace · global" in out
    assert "provider took" in out


def test_json_is_all_of_stdout(write: Write, harness: Run, process: Run, tmp_path: Path) -> None:
    """What plugins print goes to stderr."""
    write(manifest=AGENTS, rules=RULES)
    for run in (harness, lambda *args: process(*args, cwd=tmp_path)):
        ended = run("prompt", "harness.yaml", "--json")
        assert ended.code == 0
        assert "noise on stdout" in ended.err
        scopes = ended.data["scopes"]
        assert list(scopes) == ["global", "main", "helper"]
        assert set(scopes["main"]) == {"system", "snapshot", "tools", "explain"}
        assert scopes["global"]["system"] == "Deployed.\n\nBe kind."
        assert scopes["main"]["system"] == "I am ada.\n\nBe kind."
        assert scopes["helper"]["snapshot"] == ""
        assert scopes["main"]["snapshot"].endswith("\n\nIt is late.")
        (tool,) = scopes["main"]["tools"]
        assert (tool["name"], tool["parameters"]["required"]) == ("read", ["path"])
        rules = [one for one in scopes["helper"]["explain"] if one["name"] == "rules"]
        assert [(one["status"], one["plugin"], one["scope"]) for one in rules] == [
            ("included", "quiet", "helper"), ("shadowed", "rules", "global"),
        ]  # fmt: skip
        assert rules[0]["file"] == "rules.py"
        assert rules[0]["line"] == 19
        assert rules[0]["shadows"][0]["plugin"] == "rules"


def test_json_of_one_agent(write: Write, harness: Run) -> None:
    """Only that scope."""
    write(manifest=AGENTS, rules=RULES)
    scopes = harness("prompt", "harness.yaml", "--json", "--agent", "main").data["scopes"]
    assert list(scopes) == ["main"]


def test_raw_is_the_request_as_it_is_sent(write: Write, harness: Run) -> None:
    """Nothing is wrapped, escaped or added."""
    write(manifest=AGENTS, rules=RULES.replace("Be kind.", "y" * 150))
    out = harness("prompt", "harness.yaml", "--raw", "--agent", "main").out
    assert out.startswith(("noise on stdout\nnoise", "noise on stdout\nI am ada."))
    assert "\n" + "y" * 150 + "\n" in out
    assert harness("prompt", "harness.yaml", "--raw").out.count("Deployed.") == 1


def test_other_peoples_text_cannot_command_the_terminal(write: Write, harness: Run) -> None:
    """Control characters and invisible ones are shown as escapes."""
    write(manifest=AGENTS, rules=RULES.replace("Be kind.", r"a\x1b[31mb\u202ec\x07 [bold]d[/bold]"))
    out = harness("prompt", "harness.yaml").out
    assert "a\\x1b[31mb\\u202ec\\x07 [bold]d[/bold]" in out


def test_a_picture_shows_the_output_and_no_foreign_host(write: Write, harness: Run) -> None:
    """SVG without fonts from elsewhere, nor paths of this machine."""
    write(manifest=AGENTS, rules=RULES)
    ended = harness("prompt", "harness.yaml", "--svg", "demo.svg")
    assert ended.code == 0
    svg = Path("demo.svg").read_text()
    ET.fromstring(svg)
    assert "@font-face" not in svg
    assert "https://" not in svg
    assert svg.count("http://") == svg.count("http://www.w3.org/")
    assert str(Path.cwd()) not in svg
    assert "deployment:persona" in svg
    assert "\x1b" not in ended.out


def test_a_diff_says_what_changed_since(write: Write, harness: Run) -> None:
    """Against what `--json` printed; and how much of the request a cache can reuse."""
    write(manifest=AGENTS, rules=RULES)
    Path("before.json").write_text(harness("prompt", "harness.yaml", "--json").out)
    same = harness("prompt", "harness.yaml", "--diff", "before.json")
    assert (same.code, same.out.endswith("nothing changed\n")) == (0, True)
    write(rules=RULES.replace("Be kind.", "Be fair.").replace('"Reads."', '"Reads it."'))
    out = harness("prompt", "harness.yaml", "--diff", "before.json").out
    main = out.split("main\n")[1].split("helper\n")[0]
    assert "  -Be kind.\n  +Be fair.\n" in main
    assert "  + tool read: description changed\n" in main
    assert "the first 14 of " in main
    only = harness("prompt", "harness.yaml", "--agent", "helper", "--diff", "before.json").out
    assert "Be fair." not in only


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "cannot be read"),
        ("{", "1:2: not JSON"),
        ("[]", "not what"),
        ('{"scopes": {"a": 1}}', "not what"),
    ],
)
def test_a_diff_against_something_else_is_refused(
    write: Write, harness: Run, content: str | None, message: str
) -> None:
    """With the file's name."""
    write(manifest=AGENTS, rules=RULES)
    if content is not None:
        Path("saved.json").write_text(content)
    ended = harness("prompt", "harness.yaml", "--diff", "saved.json")
    assert ended.code == 1
    assert f"error: saved.json:{'' if message[0] == '1' else ' '}{message}" in ended.err


def test_options_that_exclude_each_other(write: Write, harness: Run) -> None:
    """Exit code 2."""
    write(manifest="[]\n")
    for pair in (("--json", "--raw"), ("--json", "--svg", "x.svg"), ("--raw", "--diff", "x")):
        ended = harness("prompt", "harness.yaml", *pair)
        assert (ended.code, ended.out) == (2, "")
        assert "exclude each other" in ended.err


def test_the_token_count_is_an_estimate_of_a_quarter_of_the_characters() -> None:
    """Rounded up."""
    from harness_core.cli.tokens import count_tokens, is_estimate

    if is_estimate():
        assert [count_tokens(text) for text in ("", "a", "abcd", "abcde")] == [0, 1, 1, 2]


def test_rows_that_wait_are_a_warning(write: Write, harness: Run) -> None:
    """The rest is shown."""
    write(
        manifest=AGENTS + "- {name: ./w.py}\n",
        rules=RULES,
        w="inject = ['db']\ndef apply(ctx): ...",
    )
    ended = harness("prompt", "harness.yaml", "--json")
    assert ended.code == 0
    assert 'warning: harness.yaml:14:10: row "./w.py" waits for service "db"' in ended.err
    json.loads(ended.out)


def test_a_contribution_that_failed_is_a_warning(write: Write, harness: Run) -> None:
    """It was optional; the rest is shown."""
    plugin = """
    inject = ["system_prompt"]
    def apply(ctx):
        ctx.system_prompt.section("bad", lambda: 1 / 0, order=1, optional=True)
    """
    write(manifest="- name: ./p.py\n", p=plugin)
    ended = harness("prompt", "harness.yaml")
    assert ended.code == 0
    assert 'warning: scope global: section "bad" failed: ZeroDivisionError' in ended.err
    assert "○ bad" in ended.out


@pytest.mark.parametrize("file", ["rules.py", "words.py"], ids=["a plugin", "what it imports"])
def test_a_second_save_within_a_second_is_seen_by_the_next_command(
    tmp_path: Path, process: Run, monkeypatch: pytest.MonkeyPatch, file: str
) -> None:
    """Of equal size and equal time: Python would take the bytecode of the first for valid."""
    monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
    (tmp_path / "harness.yaml").write_text("- name: ./rules.py\n- name: words\n")
    body = (
        'inject = ["system_prompt"]\n'
        "def apply(ctx):\n"
        '    ctx.system_prompt.section(__file__[-8:], "say ann", order=1)\n'
    )
    for name in ("rules.py", "words.py"):
        (tmp_path / name).write_text(body)
    first = process("prompt", "harness.yaml", "--raw", cwd=tmp_path)
    assert first.out.count("say ann") == 2, first.err
    before = (tmp_path / file).stat()
    (tmp_path / file).write_text(body.replace("ann", "bob"))
    os.utime(tmp_path / file, ns=(before.st_atime_ns, before.st_mtime_ns))
    second = process("prompt", "harness.yaml", "--raw", cwd=tmp_path)
    assert second.out.count("say bob") == 1, second.err
