"""What a row's name may be, and what is said when it is nothing."""

from __future__ import annotations

import sys
from pathlib import Path

import harness_plugins.persona
import pytest

from harness_core.errors import PluginError
from harness_core.loader import Resolver
from harness_core.prompt import SystemPrompt

from .harness import write_files

PLUGIN = "def apply(ctx):\n    pass\n"


def test_a_short_name_is_an_entry_point(tmp_path: Path) -> None:
    """Everything of this project has one."""
    resolver = Resolver(tmp_path)
    assert resolver.resolve("system_prompt").plugin is SystemPrompt
    assert resolver.resolve("persona").plugin is harness_plugins.persona


def test_every_plugin_of_this_project_has_its_entry_point() -> None:
    """What a source tree finds by place, an installation finds by name."""
    import tomllib

    from harness_core.loader.resolve import entry_points

    root = Path(__file__).parents[2]
    declared = tomllib.loads((root / "pyproject.toml").read_text())["project"]["entry-points"]
    ours = {
        name: target
        for name, target in entry_points().items()
        if target.startswith(("harness_core.", "harness_plugins."))
    }
    assert declared["harness.plugins"] == ours


def test_a_module_and_what_it_holds(tmp_path: Path) -> None:
    """`package.module` and `package.module:attribute`."""
    resolver = Resolver(tmp_path)
    assert resolver.resolve("harness_plugins.persona").plugin is harness_plugins.persona
    found = resolver.resolve("harness_plugins.persona:apply").plugin
    assert found is harness_plugins.persona.apply


def test_an_importable_module_needs_no_dot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A module at the top is a plugin like any other."""
    write_files(tmp_path, one_lonely_module=PLUGIN)
    monkeypatch.syspath_prepend(tmp_path)
    try:
        assert (
            Resolver(tmp_path).resolve("one_lonely_module").plugin.__name__ == "one_lonely_module"
        )
    finally:
        sys.modules.pop("one_lonely_module", None)


def test_a_file_and_what_it_holds(tmp_path: Path) -> None:
    """Relative to the manifest, whatever the working directory is; absolute paths too."""
    write_files(tmp_path, rules=PLUGIN + "class Other:\n    apply = staticmethod(apply)\n")
    resolver = Resolver(tmp_path)
    for name in ("./rules.py", f"{tmp_path}/rules.py", f"../{tmp_path.name}/rules.py"):
        found = resolver.resolve(name)
        assert (found.label, found.plugin.__file__) == ("rules", str(tmp_path / "rules.py"))
        found.forget()
    found = resolver.resolve("./rules.py:Other")
    assert (found.plugin.__name__, found.label) == ("Other", None)
    found.forget()


def test_each_mount_of_a_file_is_a_module_of_its_own_until_it_is_forgotten(tmp_path: Path) -> None:
    """Two rows share no state, and nothing stays in `sys.modules`."""
    before = set(sys.modules)
    write_files(tmp_path, rules=PLUGIN)
    first, second = (Resolver(tmp_path).resolve("./rules.py") for _ in range(2))
    assert first.plugin is not second.plugin
    assert set(sys.modules) - before == {first.plugin.__name__, second.plugin.__name__}
    first.forget()
    second.forget()
    assert set(sys.modules) == before


UNKNOWN = {
    "persna": 'unknown plugin "persna"; did you mean "persona"?. Installed plugins: ',
    "zzz": 'unknown plugin "zzz". Installed plugins: agents, ',
    "rules.py": "a file begins with ./ (./rules.py)",
    "./rule.py": 'there is no such file; did you mean "./rules.py"',
    "./folder.py": "this is a directory",
    "./rules.txt": "a plugin file ends in .py",
    "no.such.module": 'there is no module "no"',
    "harness_plugins.persna": 'there is no module "harness_plugins.persna"',
    "harness_plugins.persona:aply": 'nothing there is called "aply"; did you mean "apply"?',
    "./rules.py:aply": 'nothing there is called "aply"; did you mean "apply"?',
    "./empty.py": "empty.py has no function apply(ctx)",
    "./one.py": "to mount one thing of it, write ./one.py:strict",
    "json": "json has no function apply(ctx)",
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_what_is_no_plugin_is_one_clear_error(tmp_path: Path, name: str) -> None:
    """It says what is near, and leaves no module behind."""
    write_files(tmp_path, rules=PLUGIN, empty="", one="def strict(ctx):\n    pass\n")
    (tmp_path / "folder.py").mkdir()
    (tmp_path / "rules.txt").write_text(PLUGIN)
    before = set(sys.modules)
    with pytest.raises(PluginError) as caught:
        Resolver(tmp_path).resolve(name)
    assert UNKNOWN[name].replace("?.", "?") in str(caught.value).replace("?.", "?")
    assert {module for module in set(sys.modules) - before if "harness_file" in module} == set()


BROKEN = {
    "syntax": ("x = 1\ndef apply(ctx:\n    pass\n", "broken.py:2:", "SyntaxError: "),
    "import": ("import no_such_module_here\n", "broken.py:1: ", "ModuleNotFoundError: No module"),
    "raising": ("def f():\n    return 1 / 0\n\n\nf()\n", "broken.py:2: ", "ZeroDivisionError: "),
    "inside the library": ("import json\njson.loads('{')\n", "broken.py:2: ", "JSONDecodeError: "),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_an_error_while_importing_names_file_and_line(tmp_path: Path, kind: str) -> None:
    """The line is the plugin's own, also where a library raised; the cause is kept."""
    text, place, message = BROKEN[kind]
    (tmp_path / "broken.py").write_text(text)
    before = set(sys.modules)
    with pytest.raises(PluginError, match="cannot be imported") as caught:
        Resolver(tmp_path).resolve("./broken.py")
    assert place in str(caught.value)
    assert message in str(caught.value)
    assert caught.value.__cause__ is not None
    assert not any("harness_file" in module for module in set(sys.modules) - before)


def test_a_package_that_misses_a_module_is_not_an_unknown_plugin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its own import failed, and that is what is said."""
    write_files(tmp_path, half_there_plugin="import quite_missing_module\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(PluginError, match=r"half_there_plugin\.py:1: ModuleNotFoundError"):
        Resolver(tmp_path).resolve("half_there_plugin:apply")
