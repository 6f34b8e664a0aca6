"""What a manifest may hold, and what every fault in it says: file, line, column."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness_core.errors import ManifestError
from harness_core.loader import Entry, read_manifest


def write(directory: Path, content: str | bytes) -> Path:
    file = directory / "harness.yaml"
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    return file


def read(directory: Path, content: str | bytes, **environ: str) -> tuple[Entry, ...]:
    return read_manifest(write(directory, content), environ).entries


FAULTS = {
    "a YAML fault": ("- name: [persona\n", 2, 1, "not YAML"),
    "a tab as indentation": ("- name: a\n\tb: c\n", 2, 1, "not YAML"),
    "a colon too many": ("- name: a\n- name: b: c\n", 2, 10, "mapping values are not allowed"),
    "a key twice": ("- name: a\n  name: b\n", 2, 3, 'duplicate key "name"'),
    "an unknown alias": ("- name: *nobody\n", 1, 9, "undefined alias"),
    "two documents": ("- name: a\n---\n- name: b\n", 2, 1, "another document"),
    "a character that YAML forbids": ("- name: a\n- id: x\x01\n", 2, 8, "U+0001"),
    "a tag": ("- name: a\n  config:\n    x: !secret abc\n", 3, 8, "tag '!secret'"),
    "an alias inside itself": ("- name: a\n  config: &c\n    x: *c\n", 3, 8, "inside what"),
    "nothing": ("", 1, 1, "the file is empty"),
    "nothing but a comment": ("# later\n", 1, 1, "the file is empty"),
    "a mapping of rows": ("persona:\n  config: {}\n", 1, 1, "expected a list of rows, got a map"),
    "a text": ("persona\n", 1, 1, "expected a list of rows, got 'persona'"),
    "a list as a row": ("- name: a\n- - name: b\n", 2, 3, "expected a row, a mapping"),
    "a text as a row": ("- persona\n", 1, 3, "got 'persona'"),
    "an empty row": ("- name: a\n-\n", 2, None, "got nothing"),
    "an unknown key": ("- name: a\n  confg: {}\n", 2, 3, '"confg", did you mean "config"?'),
    "settings outside config": ("- name: a\n  persona: x\n", 2, 3, "go under config"),
    "no name": ("- name: a\n- id: b\n", 2, 3, "has no name"),
    "an empty name": ("- name:\n", 1, 3, "name is empty"),
    "a number as a name": ("- name: 5\n", 1, 9, "name is 5: expected a text"),
    "a number as an id": ("- name: a\n  id: 7\n", 2, 7, "id is 7: expected a text"),
    "an id twice": (
        "- {id: one, name: a}\n- {id: two, name: b}\n- {id: one, name: c}\n",
        3, 8, 'duplicate id "one": another row has it at line 1',
    ),
    "an id twice, over groups": (
        "- {id: one, name: a}\n- id: g\n  group: true\n  config:\n    - {id: one, name: b}\n",
        5, 12, 'duplicate id "one"',
    ),
    "a name twice without ids": ("- name: a\n- name: a\n", 2, 9, "an id of its own"),
    "a group that is no list": (
        "- id: g\n  group: true\n  config:\n    name: a\n", 4, 5, "expected a list of rows",
    ),
    "a group that is no bool": ("- id: g\n  group: maybe\n", 2, 10, "expected true"),
    "disabled that is no bool": ("- name: a\n  disabled: perhaps\n", 2, 13, "true or false"),
    "disabled that is a list": ("- name: a\n  disabled: []\n", 2, 13, "true or false"),
    "inject that is a number": ("- name: a\n  inject: 5\n", 2, 11, "inject is 5"),
    "inject of no key": ("- name: a\n  inject: [no key]\n", 2, 11, "'no key' is no service key"),
    "inject with a text": ("- name: a\n  inject: {db: x}\n", 2, 16, "is given 'x'"),
    "isolate with a list": ("- name: a\n  isolate: {db: []}\n", 2, 17, "is given []"),
    "intercept with a text": ("- name: a\n  intercept: {db: x}\n", 2, 19, "is given 'x'"),
    "intercept that is a list": ("- name: a\n  intercept: [db]\n", 2, 14, "intercept is a list"),
    "the environment in a name": ("- name: ${env:X}\n", 1, 9, "config and disabled only"),
    "the environment in an id": ("- name: a\n  id: ${env:X}\n", 2, 7, "config and disabled only"),
    "the environment in a label": (
        "- name: a\n  isolate: {db: '${env:X}'}\n", 2, 17, "config and disabled only",
    ),
    "the environment in a key": (
        "- name: a\n  config:\n    ${env:X}: 1\n", 3, 5, "a key cannot hold",
    ),
    "a variable that is not set": (
        "- name: a\n  config:\n    list:\n      - x\n      - ${env:NOBODY_SETS_THIS}\n",
        5, 9, "NOBODY_SETS_THIS is not set",
    ),
    "a malformed reference": ("- name: a\n  config: {x: '${env:a-b}'}\n", 2, 15, "malformed"),
    "an unclosed reference": ("- name: a\n  config: {x: '${env:A'}\n", 2, 15, "malformed"),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_reported_at_its_place(tmp_path: Path, name: str) -> None:
    """Line and column count from 1, and the message begins with them."""
    content, line, column, message = FAULTS[name]
    with pytest.raises(ManifestError) as caught:
        read(tmp_path, content)
    error = caught.value
    assert message in error.message
    assert error.line == line
    assert column is None or error.column == column
    assert str(error).startswith(f"{tmp_path / 'harness.yaml'}:{error.line}:{error.column}: ")


def test_a_missing_file_and_a_directory_have_no_line(tmp_path: Path) -> None:
    """There is only the file to name."""
    for path, message in ((tmp_path / "none.yaml", "no such file"), (tmp_path, "a directory")):
        with pytest.raises(ManifestError, match=message) as caught:
            read_manifest(path)
        assert (caught.value.file, caught.value.line, caught.value.column) == (
            str(path),
            None,
            None,
        )


def test_what_is_not_utf_8_is_reported_at_the_byte(tmp_path: Path) -> None:
    """The column counts characters, not bytes."""
    with pytest.raises(ManifestError, match="not UTF-8: byte 0xff") as caught:
        read(tmp_path, "- name: a\n- id: ä".encode() + b"\xff\n")
    assert (caught.value.line, caught.value.column) == (2, 8)


def test_deep_nesting_is_an_error_and_no_crash(tmp_path: Path) -> None:
    """Three thousand brackets."""
    with pytest.raises(ManifestError, match="nested too deeply"):
        read(tmp_path, "[" * 3000)


def fault_of(directory: Path, content: bytes) -> ManifestError | None:
    try:
        read(directory, content)
    except ManifestError as error:
        return error
    return None


@given(data=st.data())
@settings(deadline=None)
def test_whatever_is_broken_is_a_manifest_error_with_a_place(data: st.DataObject) -> None:
    """Any bytes put anywhere into a good file: it reads, or says where it does not."""
    text = GOOD.encode()
    at = data.draw(st.integers(0, len(text)))
    cut = data.draw(st.integers(0, 12))
    piece = data.draw(st.one_of(st.sampled_from(PIECES), st.binary(max_size=6)))
    with TemporaryDirectory() as directory:
        fault = fault_of(Path(directory), text[:at] + piece + text[at + cut :])
    assert fault is None or (fault.line is not None and fault.line >= 1)


GOOD = """
- id: one
  name: persona
  config: {text: "hello ${env:X:-y}", list: [1, 2.5, true, null, 2024-01-01]}
- &row
  id: group
  group: true
  disabled: false
  config:
    - name: ./rules.py:strict
      inject: [database, {}]
      isolate: {database: label}
      intercept: {database: {a: 1}}
""".replace(", {}]", "]")

PIECES = [
    *(piece.encode() for piece in (
        "- ", ": ", "&a ", "*a", "*row", "!!set ", "!x ", "{", "}", "[", "]", "'", '"', "|", ">",
        "?", "? ", "#", "%", "@", "\n", "\t", "\r", "---\n", "<<: *row", "${env:", "~", "0x",
        ".inf", "1e5", "\x00", "\u2028", "!!binary aGk=", "!!omap ",
    )),
    b"\xff",
]  # fmt: skip


def test_aliases_that_multiply_are_refused(tmp_path: Path) -> None:
    """Nine levels of nine are four hundred million values."""
    lines = ["- name: a", "  config:", "    a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    for level in range(1, 9):
        inner = ", ".join([f"*a{level - 1}"] * 9)
        lines.append(f"    a{level}: &a{level} [{inner}]")
    with pytest.raises(ManifestError, match="too many values"):
        read(tmp_path, "\n".join(lines))


@pytest.mark.parametrize("prefix", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_a_byte_order_mark_and_crlf_are_accepted(
    tmp_path: Path, prefix: bytes, line_end: str
) -> None:
    """They change neither what is read nor where a fault is."""
    text = line_end.join(["- name: a", "  config: {x: |-", "    1}", ""]).encode()
    good = line_end.join(["- name: a", "  config:", "    x: |-", "      one", "      two", ""])
    (entry,) = read(tmp_path, prefix + good.encode())
    assert entry.config == {"x": "one\ntwo"}
    with pytest.raises(ManifestError) as caught:
        read(tmp_path, prefix + text)
    assert caught.value.line == 2


def test_a_row_is_read_whole(tmp_path: Path) -> None:
    """All keys, and the shapes of inject, isolate and intercept."""
    (entry,) = read(
        tmp_path,
        """
- id: rules
  name: ./rules.py:strict
  config: {a: 1, b: [true, 2.5, null, text], c: &c {d: e}, f: *c}
  disabled: false
  inject: [database, cache]
  isolate: {database: shared, cache: }
  intercept: {database: {timeout: 3}}
""",
    )
    assert entry == Entry(
        "rules",
        "./rules.py:strict",
        config={"a": 1, "b": [True, 2.5, None, "text"], "c": {"d": "e"}, "f": {"d": "e"}},
        inject={"database": None, "cache": None},
        isolate={"database": "shared", "cache": None},
        intercept={"database": {"timeout": 3}},
    )
    assert (entry.place.line, entry.place_of("config").line) == (2, 4)


def test_one_key_stands_for_a_list_of_it(tmp_path: Path) -> None:
    """`inject: database`."""
    (entry,) = read(tmp_path, "- {name: a, inject: database, isolate: cache}\n")
    assert (entry.inject, entry.isolate) == ({"database": None}, {"cache": None})


def test_rows_compare_by_what_they_say_and_not_by_where(tmp_path: Path) -> None:
    """So that a diff of two manifests finds what changed."""
    before = read(tmp_path, "- {name: a, config: {x: 1}}\n")
    after = read(tmp_path, "# a comment\n\n- name: a\n  config:\n    x: 1\n")
    assert before == after
    assert before != read(tmp_path, "- {name: a, config: {x: 2}}\n")


def test_a_row_without_an_id_is_called_by_its_name(tmp_path: Path) -> None:
    """An id is only needed where a name comes twice."""
    rows = read(tmp_path, "- name: a\n- {id: b, name: a}\n")
    assert [row.id for row in rows] == ["a", "b"]


def test_a_group_holds_rows_and_disables_them(tmp_path: Path) -> None:
    """Its name is optional, and groups nest."""
    manifest = read_manifest(
        write(
            tmp_path,
            """
- id: outer
  group: true
  disabled: true
  config:
    - name: a
    - {id: inner, group: true, config: [{name: b, disabled: false}]}
- name: c
""",
        )
    )
    rows = {row.id: row.disabled for row in manifest.walk()}
    assert rows == {"outer": True, "a": True, "inner": True, "b": True, "c": False}
    assert [child.id for child in manifest.entries[0].children] == ["a", "inner"]


def test_an_empty_list_is_an_application_without_rows(tmp_path: Path) -> None:
    """It says so itself, unlike an empty file."""
    assert read(tmp_path, "[]\n") == ()


def test_the_environment_is_resolved_in_config(tmp_path: Path) -> None:
    """As in a shell: `:-` also stands in for an empty variable, `$$` is a dollar."""
    content = """
- name: a
  config:
    plain: ${env:HOST}
    inside: http://${env:HOST}:${env:PORT:-80}/
    empty: ${env:EMPTY:-default}
    kept: $${env:HOST} $HOST ${HOST}
    nothing: "${env:NOBODY:-}"
    list: ["${env:PORT:-80}"]
"""
    (entry,) = read(tmp_path, content, HOST="h", EMPTY="")
    assert entry.config == {
        "plain": "h",
        "inside": "http://h:80/",
        "empty": "default",
        "kept": "${env:HOST} $HOST ${HOST}",
        "nothing": "",
        "list": ["80"],
    }


def test_what_a_variable_holds_is_text_and_never_resolved_again(tmp_path: Path) -> None:
    """A value with YAML, or with another reference, in it changes nothing else."""
    value = "x}, b: ${env:SECRET}\n- name: evil"
    (entry,) = read(tmp_path, "- {name: a, config: {x: '${env:V}'}}\n", V=value, SECRET="s")
    assert entry.config == {"x": value}


@pytest.mark.parametrize(
    ("value", "disabled"),
    [("true", True), ("1", True), ("YES", True), ("off", False), ("0", False), ("", False)],
)
def test_the_environment_can_disable_a_row(tmp_path: Path, value: str, disabled: bool) -> None:
    """`disabled: ${env:...}` takes the usual words for yes and no."""
    (entry,) = read(tmp_path, "- {name: a, disabled: '${env:OFF}'}\n", OFF=value)
    assert entry.disabled is disabled


def test_a_disabled_row_needs_no_variables(tmp_path: Path) -> None:
    """Its config stays as it is written."""
    rows = read(
        tmp_path,
        """
- {name: a, disabled: true, config: {token: '${env:NOBODY_SETS_THIS}'}}
- {id: g, group: true, disabled: true, config: [{name: b, config: {t: '${env:NOBODY}'}}]}
""",
    )
    assert rows[0].config == {"token": "${env:NOBODY_SETS_THIS}"}
