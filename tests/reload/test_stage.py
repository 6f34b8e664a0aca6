"""New versions are imported beside the old ones, and seen by nobody before the commit."""

from __future__ import annotations

import inspect
import linecache
import pickle
import sys
import threading
import traceback
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from harness_core import Context
from harness_core.errors import HarnessError
from harness_core.reload import StagingError, find_again, replaced_classes, stage

from .project import Project, open_project, world


def test_the_new_version_is_there_after_the_commit_and_not_before(project: Project) -> None:
    project.write_all({"low.py": "VALUE = 1", "plugin.py": "from low import VALUE"})
    old = project.load("plugin")
    project.write("low.py", "VALUE = 2")
    before = world()
    staged = project.stage("low.py")
    assert world() == before
    assert set(staged.modules) == {"low", "plugin"}
    staged.commit()
    assert sys.modules["plugin"].VALUE == sys.modules["low"].VALUE == 2
    assert old.VALUE == 1
    staged.settle()
    assert sys.modules["plugin"].VALUE == 2


def test_discard_forgets_the_new_version_before_and_after_the_commit(project: Project) -> None:
    project.write("pack/__init__.py", "")
    project.write("pack/low.py", "VALUE = 1")
    project.load("pack.low")
    before = world()
    for commit in (False, True):
        project.write("pack/low.py", f"VALUE = {commit}")
        staged = project.stage("pack/low.py")
        if commit:
            staged.commit()
        staged.discard()
        staged.discard()
        assert world() == before


def test_two_saves_within_one_second_of_equal_size_are_two_versions(project: Project) -> None:
    """Python takes the bytecode of the first for that of the second."""
    path = project.write("plugin.py", "VALUE = 1")
    project.load("plugin")
    for value in range(2, 9):
        path.write_text(f"VALUE = {value}")
        project.reload("plugin.py")
        assert value == sys.modules["plugin"].VALUE
    assert not list(project.root.glob("__pycache__/plugin.*"))


def test_stale_bytecode_from_before_is_neither_used_nor_left(project: Project) -> None:
    import os
    import py_compile

    path = project.write("plugin.py", "VALUE = 1")
    py_compile.compile(str(path))
    times = path.stat()
    path.write_text("VALUE = 2")
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert project.load("plugin").VALUE == 2
    assert not list(project.root.glob("__pycache__/plugin.*"))


def test_names_spec_file_package_and_parent_attributes_are_those_of_an_import(
    project: Project,
) -> None:
    project.write_all({"pack/__init__.py": "from . import low\n", "pack/low.py": "import sys\n"})
    olds = {name: project.load(name) for name in ("pack", "pack.low")}
    project.write("pack/low.py", "import os\n")
    project.reload("pack/low.py")
    for name, old in olds.items():
        new = sys.modules[name]
        assert new is not old
        assert (new.__name__, new.__file__, new.__package__) == (
            old.__name__,
            old.__file__,
            old.__package__,
        )
        assert new.__spec__ is not None
        assert new.__spec__.name == name
        assert new.__spec__.origin == new.__file__
        assert new.__spec__.parent == old.__package__
        assert not getattr(new.__spec__, "_initializing", False)
        assert inspect.getsource(new) == Path(str(new.__file__)).read_text()
    assert sys.modules["pack"].low is sys.modules["pack.low"]


def test_a_package_that_is_executed_anew_keeps_the_modules_in_it_that_are_not(
    project: Project,
) -> None:
    project.write_all(
        {"pack/__init__.py": "from . import one", "pack/one.py": "", "pack/two.py": ""}
    )
    two = project.load("pack.two")
    project.write("pack/one.py", "VALUE = 1")
    project.reload("pack/one.py")
    assert sys.modules["pack.two"] is two
    assert sys.modules["pack"].two is two


def test_a_package_that_stays_gets_the_new_module_as_its_attribute(project: Project) -> None:
    project.write_all({"pack/__init__.py": "", "pack/low.py": "VALUE = 1"})
    project.load("pack.low")
    pack = sys.modules["pack"]
    project.write("pack/low.py", "VALUE = 2")
    project.reload("pack/low.py")
    assert sys.modules["pack"] is pack
    assert pack.low is sys.modules["pack.low"]
    assert pack.low.VALUE == 2


def test_a_name_of_a_package_that_a_submodule_shares_survives(project: Project) -> None:
    project.write_all(
        {"pack/__init__.py": "from .run import run", "pack/run.py": "def run(): return 1"}
    )
    assert project.load("pack").run() == 1
    project.write("pack/run.py", "def run(): return 2")
    project.reload("pack/run.py")
    assert sys.modules["pack"].run() == 2


@pytest.mark.parametrize("observed", [True, False])
@pytest.mark.parametrize("entry", ["apple", "zebra", "user"])
def test_cycles_are_imported_in_the_order_that_works(
    tmp_path: Path, entry: str, observed: bool
) -> None:
    """Only who enters this cycle at `inner` can import it at all."""
    with open_project(tmp_path.resolve(), observed=observed) as project:
        inner, outer = ("zebra", "apple") if entry == "zebra" else ("apple", "zebra")
        project.write_all(
            {
                f"{inner}.py": f"NAME = 1\nimport {outer}\nVALUE = {outer}.VALUE\n",
                f"{outer}.py": f"from {inner} import NAME\nVALUE = NAME\n",
                "user.py": f"import {inner}, {outer}\n",
            }
        )
        project.load(entry)
        project.load("user")
        for value in range(2, 5):
            project.write(f"{outer}.py", f"from {inner} import NAME\nVALUE = {value}\n")
            project.reload(f"{outer}.py")
            assert value == sys.modules[inner].VALUE
            assert vars(sys.modules["user"])[inner] is sys.modules[inner]


def test_a_new_cycle_is_entered_where_a_fresh_start_would_enter_it(project: Project) -> None:
    project.write_all(
        {"low.py": "VALUE = 1", "mid.py": "from low import VALUE", "plugin.py": "import mid"}
    )
    project.load("plugin")
    project.write("low.py", "import mid\nVALUE = mid.EARLY + 1")
    project.write("mid.py", "EARLY = 1\nfrom low import VALUE")
    project.reload("low.py", "mid.py")
    assert sys.modules["plugin"].mid.VALUE == 2


def test_relative_imports_in_staged_code_give_staged_modules(project: Project) -> None:
    project.write_all(
        {
            "pack/__init__.py": "",
            "pack/low.py": "VALUE = 1",
            "pack/mid.py": "from . import low",
            "pack/top.py": "from .mid import low\nfrom .low import VALUE",
        }
    )
    project.load("pack.top")
    project.write("pack/low.py", "VALUE = 2")
    project.reload("pack/low.py")
    top = sys.modules["pack.top"]
    assert top.VALUE == top.low.VALUE == sys.modules["pack"].low.VALUE == 2


def test_type_hints_of_staged_classes_are_resolved_in_the_new_module(project: Project) -> None:
    source = """\
        from __future__ import annotations
        import attrs
        @attrs.define
        class Inner:
            value: int = 0
        @attrs.define
        class Config:
            inner: Inner
        attrs.resolve_types(Config)
        FIELD = attrs.fields(Config).inner.type
    """
    project.write("plugin.py", source)
    project.load("plugin")
    project.write("plugin.py", source + "\n")
    project.reload("plugin.py")
    assert sys.modules["plugin"].FIELD is sys.modules["plugin"].Inner


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ("VALUE = 1\nif :\n", 2, "SyntaxError"),
        ("VALUE = 1\n\nimport nothing_of_this_name\n", 3, "ModuleNotFoundError"),
        ("def f():\n    return 1 / 0\n\nf()\n", 2, "ZeroDivisionError"),
        ("VALUE = 1\nraise SystemExit(3)\n", 2, "SystemExit"),
        ("from low import GONE\n", 1, "ImportError"),
    ],
)
def test_a_failure_says_where_and_leaves_everything_as_it_was(
    project: Project, text: str, line: int, reason: str
) -> None:
    project.write_all({"low.py": "", "plugin.py": "import low\nVALUE = 0"})
    project.load("plugin")
    path = project.write("plugin.py", text)
    before = world()
    with pytest.raises(StagingError) as caught:
        project.stage("plugin.py")
    error = caught.value
    assert world() == before
    assert (error.module, error.file, error.line) == ("plugin", str(path), line)
    assert error.reason.startswith(reason)
    assert f"> {line} | {text.splitlines()[line - 1]}" in error.excerpt
    assert error.excerpt in str(error)
    assert type(error.__cause__).__name__ == reason
    assert isinstance(error, HarnessError)
    assert isinstance(error, ImportError)
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is StagingError
    assert (str(again), again.line, again.importing) == (str(error), line, error.importing)


def test_a_source_that_cannot_be_decoded_is_named(project: Project) -> None:
    path = project.write("plugin.py", "VALUE = 0")
    project.load("plugin")
    for content in (b"VALUE = '\xff'\n", b"VALUE = 1\x00\n"):
        path.write_bytes(content)
        with pytest.raises(StagingError) as caught:
            project.stage("plugin.py")
        assert caught.value.file == str(path)


def test_the_failure_of_a_deep_import_names_the_module_that_failed(project: Project) -> None:
    project.write_all({"low.py": "", "mid.py": "import low", "plugin.py": "import mid"})
    project.load("plugin")
    project.write("low.py", "1 / 0")
    with pytest.raises(StagingError) as caught:
        project.stage("low.py")
    assert caught.value.module == "low"
    assert caught.value.importing == ("low", "mid", "plugin")


def test_an_interruption_restores_too_and_is_passed_on(project: Project) -> None:
    project.write("plugin.py", "")
    project.load("plugin")
    project.write("plugin.py", "import fresh\nraise KeyboardInterrupt\n")
    project.write("fresh.py", "")
    before = world()
    with pytest.raises(KeyboardInterrupt):
        project.stage("plugin.py")
    assert world() == before
    project.write("plugin.py", "import fresh")
    project.reload("plugin.py")
    assert "fresh" in sys.modules


def test_a_module_imported_for_the_first_time_belongs_to_the_staged_set(
    project: Project,
) -> None:
    project.write("pack/__init__.py", "")
    project.write("pack/plugin.py", "")
    pack = project.load("pack")
    project.load("pack.plugin")
    project.write("pack/plugin.py", "from . import fresh\nimport this_is_new.inner")
    project.write("pack/fresh.py", "VALUE = 1")
    project.write("this_is_new/inner.py", "")
    before = world()
    staged = project.stage("pack/plugin.py")
    assert world() == before
    assert set(staged.modules) == {
        "pack.plugin",
        "pack.fresh",
        "this_is_new",
        "this_is_new.inner",
    }
    staged.commit()
    assert pack.fresh is sys.modules["pack.fresh"]
    staged.discard()
    assert world() == before
    assert not hasattr(pack, "fresh")


def test_modules_from_elsewhere_that_appear_while_staging_fails_go_again(
    project: Project,
) -> None:
    project.write("plugin.py", "")
    project.load("plugin")
    sys.modules.pop("this", None)
    sys.modules.pop("colorsys", None)
    project.write("plugin.py", "import colorsys\n1 / 0")
    before = world()
    with pytest.raises(StagingError):
        project.stage("plugin.py")
    assert world() == before
    assert "colorsys" not in sys.modules


def test_a_deleted_module_goes_if_nobody_imports_it(project: Project) -> None:
    project.write_all(
        {"pack/__init__.py": "", "pack/low.py": "", "pack/plugin.py": "import pack.low"}
    )
    project.load("pack.plugin")
    project.write("pack/plugin.py", "")
    project.delete("pack/low.py")
    staged = project.reload("pack/plugin.py", "pack/low.py")
    assert staged.removed == frozenset()
    assert "pack.low" not in sys.modules
    assert not hasattr(sys.modules["pack"], "low")


def test_a_deleted_module_that_is_imported_still_is_an_error(project: Project) -> None:
    project.write_all({"low.py": "", "plugin.py": "import low"})
    project.load("plugin")
    project.delete("low.py")
    before = world()
    with pytest.raises(StagingError, match="No module named 'low'") as caught:
        project.stage("low.py")
    assert caught.value.file == str(project.path("plugin.py"))
    assert world() == before


def test_a_module_can_be_renamed_together_with_its_importer(project: Project) -> None:
    project.write_all({"old_name.py": "VALUE = 1", "plugin.py": "from old_name import VALUE"})
    project.load("plugin")
    project.path("old_name.py").rename(project.path("new_name.py"))
    project.write("plugin.py", "from new_name import VALUE")
    project.reload("old_name.py", "new_name.py", "plugin.py")
    assert "old_name" not in sys.modules
    assert sys.modules["plugin"].VALUE == sys.modules["new_name"].VALUE == 1


def test_a_module_becomes_a_package_and_a_module_again(project: Project) -> None:
    project.write_all({"thing.py": "VALUE = 1", "plugin.py": "from thing import VALUE"})
    project.load("plugin")
    project.delete("thing.py")
    project.write("thing/__init__.py", "from .inner import VALUE")
    project.write("thing/inner.py", "VALUE = 2")
    project.reload("thing.py", "thing/__init__.py", "thing/inner.py")
    assert sys.modules["plugin"].VALUE == 2
    assert sys.modules["thing"].inner is sys.modules["thing.inner"]
    project.delete("thing/__init__.py")
    project.delete("thing/inner.py")
    project.write("thing.py", "VALUE = 3")
    project.reload("thing.py", "thing/__init__.py", "thing/inner.py")
    assert sys.modules["plugin"].VALUE == 3
    assert "thing.inner" not in sys.modules
    assert not hasattr(sys.modules["thing"], "__path__")


def test_a_package_takes_precedence_over_a_module_of_the_same_name(project: Project) -> None:
    project.write_all({"thing.py": "VALUE = 1", "plugin.py": "from thing import VALUE"})
    project.load("plugin")
    project.write("thing/__init__.py", "VALUE = 2")
    project.reload("thing/__init__.py")
    assert sys.modules["plugin"].VALUE == 2


def test_a_namespace_package_becomes_a_regular_one_and_back(project: Project) -> None:
    project.write_all({"space/tool.py": "VALUE = 1", "plugin.py": "import space.tool"})
    project.load("plugin")
    project.write("space/__init__.py", "NAME = 'space'")
    project.reload("space/__init__.py")
    assert sys.modules["space"].NAME == "space"
    assert sys.modules["plugin"].space is sys.modules["space"]
    project.delete("space/__init__.py")
    project.reload("space/__init__.py")
    assert not hasattr(sys.modules["space"], "NAME")
    assert sys.modules["plugin"].space.tool is sys.modules["space.tool"]


def test_a_file_that_was_loaded_from_its_place_is_staged_from_its_place(
    project: Project,
) -> None:
    from importlib.util import module_from_spec, spec_from_file_location

    path = project.write("odd-name/rules.py", "VALUE = 1")
    spec = spec_from_file_location("file_17.rules", path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules["file_17.rules"] = module
    spec.loader.exec_module(module)
    path.write_text("VALUE = 2")
    staged = project.reload("odd-name/rules.py")
    assert sys.modules["file_17.rules"].VALUE == 2
    assert staged.removed == frozenset()
    path.unlink()
    project.reload("odd-name/rules.py")
    assert "file_17.rules" not in sys.modules


def test_old_code_that_imports_while_the_new_shows_takes_nothing_along(
    project: Project,
) -> None:
    """What is imported for the first time by one version goes when that version goes."""
    project.write_all(
        {"low.py": "VALUE = 1", "lazy.py": "from low import VALUE", "plugin.py": "import low"}
    )
    project.load("plugin")
    project.write("low.py", "VALUE = 2")
    staged = project.stage("low.py")
    staged.commit()
    assert project.load("lazy").VALUE == 2
    staged.withdraw()
    assert "lazy" not in sys.modules
    assert project.load("lazy").VALUE == 1
    staged.commit()
    assert sys.modules["lazy"].VALUE == 2
    staged.discard()
    assert sys.modules["lazy"].VALUE == 1


def test_a_module_that_has_nothing_to_do_with_it_stays_when_the_new_version_goes(
    project: Project,
) -> None:
    project.write_all({"plugin.py": "", "apart.py": ""})
    project.load("plugin")
    staged = project.stage("plugin.py")
    staged.commit()
    apart = project.load("apart")
    staged.discard()
    assert sys.modules["apart"] is apart


def test_tracebacks_of_the_new_version_show_the_new_source(project: Project) -> None:
    path = project.write("plugin.py", "def run():\n    raise ValueError('old text')\n")
    for text in ("old text", "new text"):
        path.write_text(f"def run():\n    raise ValueError({text!r})\n")
        if "plugin" in sys.modules:
            project.reload("plugin.py")
        try:
            project.load("plugin").run()
        except ValueError as error:
            shown = "".join(traceback.format_exception(error))
            assert f"raise ValueError({text!r})" in shown
        assert linecache.getline(str(path), 2) == f"    raise ValueError({text!r})\n"


def test_staging_leaves_other_threads_and_the_import_lock_alone(project: Project) -> None:
    project.write("plugin.py", "import threading\nCALLER = threading.get_ident()")
    project.load("plugin")
    project.reload("plugin.py")
    assert threading.get_ident() == sys.modules["plugin"].CALLER


@pytest.mark.asyncio
async def test_a_service_is_found_by_its_old_class_and_by_its_new_one(project: Project) -> None:
    project.write(
        "store.py",
        """\
        from harness_core import Service
        class Store(Service, key="store"):
            VERSION = 1
            class Inner: ...
        """,
    )
    old: Any = project.load("store").Store
    project.write(
        "store.py",
        """\
        from harness_core import Service
        class Store(Service, key="store"):
            VERSION = 2
            class Inner: ...
        """,
    )
    staged = project.stage("store.py")
    new = staged.modules["store"].Store
    assert replaced_classes(staged) == {old: new, old.Inner: new.Inner}
    found: Any = find_again(old, staged)
    assert found is new
    staged.commit()
    staged.settle()
    async with Context() as root:
        await root.plugin(new)
        assert root[old].VERSION == root[new].VERSION == 2


def test_only_one_set_is_staged_at_a_time(project: Project) -> None:
    project.write("plugin.py", "")
    project.load("plugin")
    staged = project.stage("plugin.py")
    with pytest.raises(RuntimeError, match="one set"):
        project.stage("plugin.py")
    staged.discard()
    project.stage("plugin.py").discard()


def test_nothing_to_stage_is_no_error(project: Project) -> None:
    staged = stage(set(), project.graph)
    staged.commit()
    staged.settle()
    assert staged.modules == dict[str, ModuleType]()
