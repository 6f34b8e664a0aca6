"""Which modules a change affects: those that have really imported it, and no others."""

from __future__ import annotations

import builtins
import importlib
import sys
from pathlib import Path

import pytest

from harness_core import Context
from harness_core.reload import ImportGraph, Roots

from .project import Project, open_project


def test_a_chain_of_imports_is_affected_up_to_the_plugin_and_not_beside_it(
    project: Project,
) -> None:
    project.write_all(
        {
            "low.py": "VALUE = 1",
            "middle.py": "import low",
            "high.py": "from middle import low",
            "beside.py": "import sys",
        }
    )
    for name in ("high", "beside"):
        project.load(name)
    assert project.affected("low.py") == {"low", "middle", "high"}
    assert project.affected("middle.py") == {"middle", "high"}
    assert project.affected("beside.py") == {"beside"}


def test_a_leaf_helper_of_one_of_fifty_plugins_affects_one_plugin(project: Project) -> None:
    project.write("family/__init__.py", "")
    project.write("family/common.py", "NAME = 'common'")
    for number in range(50):
        project.write(f"family/helper{number}.py", "VALUE = 1")
        project.write(
            f"family/plugin{number}.py",
            f"from . import common\nfrom .helper{number} import VALUE",
        )
        project.load(f"family.plugin{number}")
    assert project.affected("family/helper7.py") == {"family.helper7", "family.plugin7"}
    assert len(project.affected("family/common.py")) == 51


def test_an_import_inside_a_function_counts_once_it_has_run(project: Project) -> None:
    project.write_all(
        {"lazy.py": "VALUE = 1", "plugin.py": "def run():\n    from lazy import VALUE\n"}
    )
    plugin = project.load("plugin")
    project.load("lazy")
    assert project.affected("lazy.py") == {"lazy"}
    plugin.run()
    assert project.affected("lazy.py") == {"lazy", "plugin"}


def test_import_module_counts_for_its_caller(project: Project) -> None:
    project.write_all(
        {
            "pack/__init__.py": "",
            "pack/chosen.py": "VALUE = 1",
            "plugin.py": """\
                import importlib
                def run(name):
                    return importlib.import_module(name)
            """,
            "taken.py": """\
                from importlib import import_module
                chosen = import_module(".chosen", "pack")
            """,
        }
    )
    project.load("plugin").run("pack.chosen")
    project.load("taken")
    assert project.affected("pack/chosen.py") == {"pack.chosen", "plugin", "taken"}


def test_what_a_library_imports_for_a_plugin_counts_for_the_plugin(project: Project) -> None:
    project.write_all(
        {
            "found.py": "VALUE = 1",
            "plugin.py": "import pkgutil\nVALUE = pkgutil.resolve_name('found:VALUE')",
        }
    )
    project.load("plugin")
    assert project.affected("found.py") == {"found", "plugin"}


def test_a_re_export_in_a_package_leads_to_those_who_import_the_package(project: Project) -> None:
    project.write_all(
        {
            "pack/__init__.py": "from .inner import helper",
            "pack/inner.py": "def helper(): ...",
            "pack/other.py": "VALUE = 1",
            "plugin.py": "from pack import helper",
            "apart.py": "from pack import other",
        }
    )
    project.load("plugin")
    project.load("apart")
    assert project.affected("pack/inner.py") == {"pack", "pack.inner", "plugin"}


def test_a_submodule_taken_from_a_package_does_not_drag_the_package_along(
    project: Project,
) -> None:
    """An `__init__` that collects all plugins must not make each of them depend on the others."""
    project.write_all(
        {
            "all/__init__.py": "from . import one, two",
            "all/util.py": "VALUE = 1",
            "all/one.py": "from . import util",
            "all/two.py": "from . import util as tool",
        }
    )
    project.load("all")
    assert project.affected("all/one.py") == {"all", "all.one"}
    assert project.affected("all/util.py") == {"all", "all.one", "all.two", "all.util"}


def test_a_package_that_changed_itself_affects_the_modules_in_it(project: Project) -> None:
    project.write_all({"pack/__init__.py": "", "pack/plugin.py": "", "plain.py": ""})
    project.load("pack.plugin")
    project.load("plain")
    assert project.affected("pack/__init__.py") == {"pack", "pack.plugin"}


def test_relative_imports_of_every_depth_are_followed(project: Project) -> None:
    project.write_all(
        {
            "top/__init__.py": "",
            "top/base.py": "VALUE = 1",
            "top/sub/__init__.py": "",
            "top/sub/near.py": "from ..base import VALUE",
            "top/sub/plugin.py": "from .near import VALUE\nfrom . import near\n",
        }
    )
    project.load("top.sub.plugin")
    assert project.affected("top/base.py") == {"top.base", "top.sub.near", "top.sub.plugin"}


def test_a_cycle_is_affected_whole_and_once(project: Project) -> None:
    project.write_all(
        {"first.py": "import second", "second.py": "import first", "user.py": "import second"}
    )
    project.load("user")
    assert project.affected("first.py") == {"first", "second", "user"}


def test_modules_of_a_namespace_package_are_followed(project: Project) -> None:
    project.write_all({"space/tool.py": "VALUE = 1", "plugin.py": "import space.tool"})
    project.load("plugin")
    assert project.affected("space/tool.py") == {"space.tool", "plugin"}


def test_a_star_import_uses_the_submodules_it_lists(project: Project) -> None:
    project.write_all(
        {
            "pack/__init__.py": "__all__ = ['one']",
            "pack/one.py": "",
            "plugin.py": "from pack import *",
        }
    )
    project.load("plugin")
    assert project.affected("pack/one.py") == {"pack.one", "plugin"}


def test_a_module_that_was_looked_for_in_vain_affects_who_looked(project: Project) -> None:
    project.write("plugin.py", "try:\n    import extra\nexcept ImportError:\n    extra = None\n")
    project.load("plugin")
    project.write("extra.py", "VALUE = 1")
    assert project.affected("extra.py") == {"plugin"}


def test_a_submodule_that_was_looked_for_in_vain_affects_who_looked(project: Project) -> None:
    project.write_all(
        {
            "pack/__init__.py": "",
            "plugin.py": "try:\n    from pack import extra\nexcept ImportError:\n    extra = None",
        }
    )
    project.load("plugin")
    project.write("pack/extra.py", "VALUE = 1")
    assert project.affected("pack/extra.py") == {"plugin"}


def test_only_what_leads_to_a_plugin_is_affected_when_plugins_are_given(project: Project) -> None:
    project.write_all(
        {"helper.py": "", "plugin.py": "import helper", "script.py": "import helper, plugin"}
    )
    project.load("script")
    assert project.affected("helper.py", plugins=["plugin"]) == {"helper", "plugin"}


def test_what_was_imported_before_anybody_listened_is_read_from_the_source(
    tmp_path: Path,
) -> None:
    with open_project(tmp_path.resolve(), observed=False) as project:
        project.write_all(
            {
                "low.py": "",
                "lazy.py": "",
                "dynamic.py": "",
                "typed.py": "",
                "plugin.py": """\
                    import importlib
                    from typing import TYPE_CHECKING
                    import low
                    if TYPE_CHECKING:
                        import typed
                    def run():
                        import lazy
                        return importlib.import_module("dynamic")
                """,
            }
        )
        project.load("plugin").run()
        project.load("typed")
        stop = project.graph.observe()
        try:
            for name in ("low", "lazy", "dynamic"):
                assert project.affected(f"{name}.py") == {name, "plugin"}
            assert project.affected("typed.py") == {"typed"}
        finally:
            stop()


def test_files_outside_the_roots_and_in_skipped_directories_affect_nothing(
    project: Project, tmp_path: Path
) -> None:
    project.write_all({"node_modules/thing.py": "", ".hidden/thing.py": ""})
    assert project.affected("node_modules/thing.py", ".hidden/thing.py") == set()
    assert project.graph.affected([tmp_path.parent / "elsewhere.py", __file__]) == set()


def test_groups_have_no_import_between_them(project: Project) -> None:
    project.write_all({"a.py": "import b", "b.py": "", "c.py": "import d", "d.py": "", "e.py": ""})
    for name in ("a", "c", "e"):
        project.load(name)
    groups = project.graph.groups("abcde")
    assert sorted(map(sorted, groups)) == [["a", "b"], ["c", "d"], ["e"]]


@pytest.mark.asyncio
async def test_the_observer_is_an_effect_that_restores_exactly(tmp_path: Path) -> None:
    doors = builtins.__import__, importlib.import_module, list(sys.meta_path)
    async with Context() as root:
        first = root.effect(ImportGraph(Roots([tmp_path])).observe, "import observer")
        second = root.effect(ImportGraph(Roots([tmp_path])).observe, "import observer")
        assert builtins.__import__ is not doors[0]
        await first.dispose()
        await second.dispose()
        assert (builtins.__import__, importlib.import_module, list(sys.meta_path)) == doors
        root.effect(ImportGraph(Roots([tmp_path])).observe, "import observer")
    assert (builtins.__import__, importlib.import_module, list(sys.meta_path)) == doors


def test_who_kept_the_observed_import_module_can_go_on_using_it(tmp_path: Path) -> None:
    with open_project(tmp_path.resolve(), observed=False) as project:
        project.write_all({"plugin.py": "from importlib import import_module", "other.py": ""})
        stop = project.graph.observe()
        plugin = project.load("plugin")
        stop()
        stop()
        assert plugin.import_module is not importlib.import_module
        assert plugin.import_module("other").__name__ == "other"


def test_the_answer_for_two_observers_is_the_same(project: Project) -> None:
    other = ImportGraph(project.graph.roots)
    stop = other.observe()
    try:
        project.write_all({"low.py": "", "plugin.py": "import low"})
        project.load("plugin")
        assert other.affected([project.path("low.py")]) == {"low", "plugin"}
        assert project.affected("low.py") == {"low", "plugin"}
    finally:
        stop()
