"""Whatever is wrong: one clear message, the place where there is one, exit code 1, no traceback."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from .conftest import ROOT, Run

Write = Callable[..., None]

CODE = """
inject = ["system_prompt"]
def apply(ctx):
    def failing():
        return 1 / 0
    ctx.system_prompt.section("rules", failing, order=1)

def raising(ctx):
    raise RuntimeError("no luck")

def wrong(ctx):
    ctx.system_prompt.section("dup", "x {{modle}}", order=1)
    ctx.system_prompt.variable("model", "m")
wrong.inject = ["system_prompt"]

async def spoiling(ctx):
    async def listener(assembly, context, next):
        return None
    ctx.on("system-prompt/assemble", listener)

async def endless(ctx):
    import anyio
    await anyio.sleep_forever()
"""

ASCII = {"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}

FAULTS = {
    "YAML": ("- name: [persona\n", "harness.yaml:2:1: not YAML"),
    "empty": ("", "harness.yaml:1:1: the file is empty"),
    "a mapping": ("a: b\n", "harness.yaml:1:1: expected a list of rows"),
    "unknown plugin": ("- name: persna\n", 'harness.yaml:1:9: unknown plugin "persna"; did you'),
    "unknown file": ("- name: ./cod.py\n", 'harness.yaml:1:9: unknown plugin "./cod.py"'),
    "bad config": (
        "- name: persona\n  config: {txt: hello}\n", "harness.yaml:2:12: invalid config of plugin",
    ),
    "raising body": (
        "- name: ./code.py:raising\n",
        'harness.yaml:1:9: plugin "./code.py:raising" failed: RuntimeError: no luck (code.py:9)',
    ),
    "failing provider": (
        "- name: ./code.py\n", 'code.py:5: scope "global" cannot be assembled: ZeroDivisionError',
    ),
    "unknown variable": (
        "- name: ./code.py:wrong\n",
        'code.py:12: scope "global" cannot be assembled: unknown prompt variable "{{modle}}"',
    ),
    "spoiling listener": ("- name: ./code.py:spoiling\n", "returned None"),
    "no prompt": ("- {name: system_prompt, disabled: true}\n", "no row provides the service"),
    "never done": ("- name: ./code.py:endless\n", "yaml:1:9: fiber root/endless is still loading"),
    "unset variable": ("- {name: a, config: {text: '${env:NOBODY}'}}\n", "yaml:1:28: the env"),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
@pytest.mark.parametrize("as_json", [False, True])
def test_a_fault_is_one_message(write: Write, harness: Run, name: str, as_json: bool) -> None:
    """On stderr; stdout stays empty, with --json too."""
    manifest, message = FAULTS[name]
    write(manifest=manifest, code=CODE)
    arguments = ["--json"] if as_json else []
    ended = harness("prompt", "harness.yaml", "--patience", "0.2", *arguments)
    assert (ended.code, ended.out) == (1, "")
    assert message in ended.err
    assert ended.err.count("error: ") == 1
    assert "Traceback" not in ended.err


def test_every_faulty_row_is_reported(write: Write, harness: Run) -> None:
    """In one run."""
    write(
        manifest="- name: one_missing\n- name: ./code.py:raising\n- name: two_missing\n", code=CODE
    )
    ended = harness("prompt", "harness.yaml")
    assert ended.code == 1
    assert ended.err.count("error: harness.yaml:") == 3


def test_debug_adds_the_traceback(write: Write, harness: Run) -> None:
    """And the log."""
    write(manifest="- name: ./code.py:raising\n", code=CODE)
    ended = harness("prompt", "harness.yaml", "--debug")
    assert ended.code == 1
    assert "Traceback (most recent call last)" in ended.err
    assert 'RuntimeError("no luck")' in ended.err or "RuntimeError: no luck" in ended.err


def test_a_missing_file_and_a_directory(harness: Run, tmp_path: Path) -> None:
    """These are faults, not wrong calls."""
    for command in ("prompt", "check", "tree"):
        missing = harness(command, str(tmp_path / "none.yaml"))
        assert (missing.code, missing.out) == (1, "")
        assert missing.err == f"error: {tmp_path / 'none.yaml'}: there is no such file\n"
        assert "this is a directory" in harness(command, str(tmp_path)).err


def test_a_wrong_call_ends_with_two(harness: Run) -> None:
    """An unknown command, an unknown option, no CONFIG."""
    for arguments in (["prmpt"], ["prompt", "x", "--jsn"], ["check"]):
        assert harness(*arguments).code == 2
    assert harness("--help").code == 0


def test_a_process_behaves_the_same(write: Write, process: Run, tmp_path: Path) -> None:
    """With warnings as errors, so nothing is left open."""
    write(manifest="- name: ./code.py\n", code=CODE)
    ended = process("prompt", "harness.yaml", cwd=tmp_path)
    assert (ended.code, ended.out) == (1, "")
    assert ended.err.startswith("error: code.py:5: ")
    assert "Traceback" not in ended.err


def test_output_that_cannot_be_encoded_is_escaped(
    write: Write, process: Run, tmp_path: Path
) -> None:
    """An old terminal is no reason to fail."""
    write(manifest="- {name: persona, config: {text: 'Grüße ✓'}}\n")
    ended = process("prompt", "harness.yaml", cwd=tmp_path, **ASCII)
    assert ended.code == 0
    assert "Gr\\xfc\\xdfe \\u2713" in ended.out
    assert process("prompt", "harness.yaml", "--json", cwd=tmp_path, **ASCII).data


def test_a_missing_extra_is_named(tmp_path: Path) -> None:
    """Without click, the message says what to install."""
    (tmp_path / "click.py").write_text("raise ModuleNotFoundError(\"No module\", name='click')\n")
    code = f"import sys; sys.path[:0] = [{str(tmp_path)!r}, {str(ROOT)!r}]\n"
    code += "from harness_core.cli import main; main(['prompt', 'x'])"
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert ended.returncode == 1
    assert 'pip install "harness-core[cli]"' in ended.stderr
    assert "Traceback" not in ended.stderr


def test_importing_the_package_imports_no_extra() -> None:
    """Neither click nor rich nor ruamel, for the entry point's module too."""
    code = "import sys, harness_core.cli\n"
    code += "print(sorted({'click', 'rich', 'ruamel'} & set(sys.modules)))"
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert ended.stdout == "[]\n"
