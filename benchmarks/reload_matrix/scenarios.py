"""The scenarios. Each is a harness of few lines, saves, and what should be seen afterwards."""

from __future__ import annotations

from textwrap import dedent

from benchmarks.reload_matrix.model import Expected, Scenario, Step

__all__ = ["SCENARIOS"]


def plugin(body: str, head: str = "") -> str:
    """Return the source of a plugin with this head and this body of `apply`."""
    inner = "\n".join(f"    {line}" for line in dedent(body).strip().splitlines())
    return (
        "from benchmarks.reload_matrix.log import LOG\n"
        f"{dedent(head).strip()}\n\n"
        'inject = ["system_prompt"]\n\n'
        f"def apply(ctx):\n    section = ctx.system_prompt.section\n{inner}\n"
    )


def says(text: str) -> str:
    """Return a plugin that has one section of this text."""
    return plugin(f'section("alpha", {text!r}, order=1)')


def uses(head: str, expression: str = "TEXT") -> str:
    """Return a plugin whose section has a text from elsewhere."""
    return plugin(f'section("alpha", {expression}, order=1)', head)


def with_resource(version: int, more: str = "") -> str:
    """Return a plugin that opens something, and closes it in the end."""
    return plugin(
        f"""\
        {more or "pass"}
        LOG.append(f"up {{VERSION}}")
        ctx.effect(lambda: lambda: LOG.append(f"down {{VERSION}}"))
        section("alpha", f"version {{VERSION}}", order=1)
        """,
        f"VERSION = {version}",
    )


def shows(*prompt: str) -> Expected:
    return Expected(prompt=prompt)


FUNCTION = plugin(
    'section("alpha", lambda: text(), order=1)',
    """\
    def text():
        return {!r}
    """,
)
LAZY = plugin(
    'section("alpha", text(), order=1)',
    """\
    def text():
        from helper import TEXT
        return TEXT
    """,
)
OPTIONAL = uses(
    """\
    try:
        from helper import TEXT
    except ImportError:
        TEXT = "no helper"
    """
)
CYCLE = uses("import helper\nNAME = 'alpha'", "helper.text()")
CYCLE_HELPER = """\
import alpha

def text():
    return f"{} of {{alpha.NAME}}"
"""
TWO = plugin('section("first", "one", order=1)\nsection("second", "two", order=2)')
BETA = plugin('LOG.append("up beta")\nsection("beta", "beta", order=1)')
COUNTING = plugin(
    """\
    seen = ctx.carry("seen", [])
    seen.append(VERSION)
    section("alpha", "seen " + " ".join(seen), order=1)
    """,
    "VERSION = {!r}",
)

SCENARIOS: tuple[Scenario, ...] = (
    Scenario(
        "changed function body",
        {"alpha.py": FUNCTION.format("one")},
        (Step({"alpha.py": FUNCTION.format("two")}, shows("two")),),
        start=shows("one"),
    ),
    Scenario(
        "changed section text",
        {"alpha.py": says("one")},
        (Step({"alpha.py": says("two")}, shows("two")),),
        start=shows("one"),
    ),
    Scenario(
        "saved by renaming",
        {"alpha.py": says("one")},
        (Step({"alpha.py": says("two")}, shows("two"), by_rename=True),),
        start=shows("one"),
    ),
    Scenario(
        "added module",
        {"alpha.py": says("one")},
        (
            Step(
                {"helper.py": 'TEXT = "helped"\n', "alpha.py": uses("from helper import TEXT")},
                shows("helped"),
            ),
            Step({"helper.py": 'TEXT = "helped again"\n'}, shows("helped again")),
        ),
        start=shows("one"),
    ),
    Scenario(
        "deleted module",
        {"alpha.py": OPTIONAL, "helper.py": 'TEXT = "helped"\n'},
        (Step({"helper.py": None}, shows("no helper")),),
        start=shows("helped"),
    ),
    Scenario(
        "renamed module",
        {"alpha.py": uses("from helper import TEXT"), "helper.py": 'TEXT = "one"\n'},
        (
            Step(
                {
                    "helper.py": None,
                    "assist.py": 'TEXT = "two"\n',
                    "alpha.py": uses("from assist import TEXT"),
                },
                shows("two"),
            ),
        ),
        start=shows("one"),
    ),
    Scenario(
        "syntax error, then fix",
        {"alpha.py": with_resource(1)},
        (
            Step(
                {"alpha.py": with_resource(2) + "def (:\n"},
                Expected(prompt=("version 1",), open=("1",)),
            ),
            Step({"alpha.py": with_resource(3)}, Expected(prompt=("version 3",), open=("3",))),
        ),
        start=shows("version 1"),
    ),
    Scenario(
        "raising body: the old version serves",
        {"alpha.py": with_resource(1)},
        (
            Step(
                {"alpha.py": with_resource(2, 'raise RuntimeError("no")')},
                Expected(prompt=("version 1",), open=("1",)),
            ),
            Step({"alpha.py": with_resource(3)}, Expected(prompt=("version 3",), open=("3",))),
        ),
        start=shows("version 1"),
    ),
    Scenario(
        "helper deep in a chain",
        {
            "alpha.py": uses("from middle import TEXT"),
            "middle.py": "from low import WORD\n\nTEXT = f'{WORD} it is'\n",
            "low.py": "from lowest import WORD\n",
            "lowest.py": 'WORD = "one"\n',
        },
        (Step({"lowest.py": 'WORD = "two"\n'}, shows("two it is")),),
        start=shows("one it is"),
    ),
    Scenario(
        "lazy import in a function",
        {"alpha.py": LAZY, "helper.py": 'TEXT = "one"\n'},
        (Step({"helper.py": 'TEXT = "two"\n'}, shows("two")),),
        start=shows("one"),
    ),
    Scenario(
        "re-export in __init__",
        {
            "alpha.py": uses("from kit import TEXT"),
            "kit/__init__.py": "from .words import TEXT\n",
            "kit/words.py": 'TEXT = "one"\n',
        },
        (Step({"kit/words.py": 'TEXT = "two"\n'}, shows("two")),),
        start=shows("one"),
    ),
    Scenario(
        "two saves of equal size in a second",
        {"alpha.py": says("one")},
        (
            Step({"alpha.py": says("two")}, pause=0.5, on_the_second=True),
            Step({"alpha.py": says("six")}, shows("six")),
        ),
        start=shows("one"),
    ),
    Scenario(
        "cycle of two modules",
        {"alpha.py": CYCLE, "helper.py": CYCLE_HELPER.format("one")},
        (
            Step({"helper.py": CYCLE_HELPER.format("two")}, shows("two of alpha")),
            Step({"alpha.py": CYCLE.replace("'alpha'", "'omega'")}, shows("two of omega")),
        ),
        start=shows("one of alpha"),
    ),
    Scenario(
        "removed registration is gone",
        {"alpha.py": TWO},
        (Step({"alpha.py": plugin('section("first", "one", order=1)')}, shows("one")),),
        start=shows("one", "two"),
    ),
    Scenario(
        "order of sections kept",
        {"alpha.py": says("one"), "beta.py": BETA},
        (Step({"alpha.py": says("two")}, shows("two", "beta")),),
        plugins=("alpha", "beta"),
        start=shows("one", "beta"),
    ),
    Scenario(
        "other plugins are left alone",
        {"alpha.py": says("one"), "beta.py": BETA},
        (
            Step(
                {"alpha.py": says("two")},
                Expected(prompt=("two", "beta"), log=("up beta",)),
            ),
        ),
        plugins=("alpha", "beta"),
        start=shows("one", "beta"),
    ),
    Scenario(
        "state handed over",
        {"alpha.py": COUNTING.format("one")},
        (Step({"alpha.py": COUNTING.format("two")}, shows("seen one two")),),
        start=shows("seen one"),
    ),
    Scenario(
        "old version down before the new is up",
        {"alpha.py": with_resource(1)},
        (Step({"alpha.py": with_resource(2)}, Expected(log=("up 1", "down 1", "up 2"))),),
        start=shows("version 1"),
    ),
    Scenario(
        "no leftover modules",
        {"alpha.py": uses("from helper import TEXT"), "helper.py": 'TEXT = "one"\n'},
        (
            Step(
                {"helper.py": None, "alpha.py": says("two")},
                Expected(prompt=("two",), modules=("alpha",)),
            ),
        ),
        start=Expected(prompt=("one",), modules=("alpha", "helper")),
    ),
)
