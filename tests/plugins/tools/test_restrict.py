"""Restrictions: in a scope, of what is inherited, lifted by their own effects."""

from __future__ import annotations

import pytest
from harness_plugins.tools.api import RestrictionError

from harness_core import Context, Scope, create_scope
from harness_core.errors import PluginError
from harness_core.testing import assert_no_residue

from .tree import told, tool, tree

pytestmark = pytest.mark.asyncio


def chain(root: Context) -> tuple[Scope, Scope]:
    """Three global tools, an outer scope with one, and an inner one with one."""
    for name in ("bash", "glob", "grep"):
        root.tools.register(tool(name))
    outer = create_scope(root, "outer")
    inner = create_scope(root, "inner", parent="outer")
    outer.ctx.tools.register(tool("of_outer"))
    inner.ctx.tools.register(tool("of_inner"))
    return outer, inner


async def test_it_filters_what_is_inherited_and_never_the_scopes_own_tools() -> None:
    """Global tools and those of ancestors."""
    async with tree() as root:
        _, inner = chain(root)
        inner.ctx.tools.restrict(deny=["bash", "of_outer", "of_inner"])
        assert await told(root, "inner") == ["glob", "grep", "of_inner"]
        assert await told(root, "outer") == ["bash", "glob", "grep", "of_outer"]


async def test_an_ancestors_restriction_reaches_descendants() -> None:
    """And leaves what they have themselves, and what lies between."""
    async with tree() as root:
        outer, _ = chain(root)
        outer.ctx.tools.restrict(allow=["glob"])
        assert await told(root, "outer") == ["glob", "of_outer"]
        assert await told(root, "inner") == ["glob", "of_inner", "of_outer"]
        assert await told(root) == ["bash", "glob", "grep"]


async def test_several_intersect_and_each_is_lifted_by_its_own_effect() -> None:
    """In any order."""
    async with tree() as root:
        outer, _ = chain(root)
        with assert_no_residue(root):
            first = outer.ctx.tools.restrict(allow=["bash", "glob"])
            second = outer.ctx.tools.restrict(allow=["glob", "grep"], deny=["grep"])
            assert await told(root, "outer") == ["glob", "of_outer"]
            await first()
            assert await told(root, "outer") == ["glob", "of_outer"]
            third = outer.ctx.tools.restrict(deny=["glob"])
            await second()
            assert await told(root, "outer") == ["bash", "grep", "of_outer"]
            await third()
        assert await told(root, "outer") == ["bash", "glob", "grep", "of_outer"]


async def test_an_empty_allow_hides_all() -> None:
    """All that is inherited."""
    async with tree() as root:
        _, inner = chain(root)
        inner.ctx.tools.restrict(allow=[])
        assert await told(root, "inner") == ["of_inner"]


async def test_deny_lets_later_registrations_through_and_allow_does_not() -> None:
    """And a name that is denied stays so when its tool comes back."""
    async with tree() as root:
        outer, inner = chain(root)
        outer.ctx.tools.restrict(allow=["bash"])
        other = create_scope(root, "other")
        gone = root.tools.register(tool("gone"))
        other.ctx.tools.restrict(deny=["gone"])
        root.tools.register(tool("later"))
        assert "later" not in await told(root, "outer") + await told(root, "inner")
        assert "later" in await told(root, "other")
        await gone()
        root.tools.register(tool("gone"))
        assert "gone" not in await told(root, "other")
        inner.ctx.tools.register(tool("later"))
        assert "later" in await told(root, "inner")


async def test_a_hidden_shadow_does_not_uncover_what_it_shadows() -> None:
    """A name is taken away whole."""
    async with tree() as root:
        outer, inner = chain(root)
        outer.ctx.tools.register(tool("bash", "outer"))
        inner.ctx.tools.restrict(deny=["bash"])
        assert (await root.tools.execute("bash", {}, scope="outer")).text == "outer"
        assert (await root.tools.execute("bash", {}, scope="inner")).status == "unknown"


@pytest.mark.parametrize("arguments", [{}, {"allow": ["bsh"]}, {"deny": ["bash", "nope"]}])
async def test_an_empty_call_and_unknown_names_are_errors_that_list_the_known(
    arguments: dict[str, list[str]],
) -> None:
    """The names before restriction, with the one that was probably meant."""
    async with tree() as root:
        outer, _ = chain(root)
        outer.ctx.tools.restrict(deny=["grep"])
        with assert_no_residue(root), pytest.raises(RestrictionError) as caught:
            outer.ctx.tools.restrict(**arguments)
        assert caught.value.known == ("bash", "glob", "grep", "of_outer")
        assert "bash, glob, grep, of_outer" in str(caught.value)
        if "allow" in arguments:
            assert caught.value.names == ("bsh",)
            assert 'did you mean "bash"?' in str(caught.value)


async def test_a_restriction_outside_a_scope_is_refused() -> None:
    """It would bind everybody."""
    async with tree() as root:
        chain(root)
        with pytest.raises(RestrictionError, match="belongs to a scope"):
            root.tools.restrict(deny=["bash"])
        assert await told(root) == ["bash", "glob", "grep"]


async def test_a_name_alone_is_refused() -> None:
    """A str is an iterable of letters."""
    async with tree() as root:
        outer, _ = chain(root)
        with pytest.raises(PluginError, match=r"write \['bash'\]"):
            outer.ctx.tools.restrict(deny="bash")
        with pytest.raises(PluginError, match="must hold tool names"):
            outer.ctx.tools.restrict(deny=[3])


async def test_why_visible_explains() -> None:
    """Whose tool it is, what it stands in front of, and what hides it."""
    async with tree() as root:
        outer, inner = chain(root)
        inner.ctx.tools.register(tool("grep"))
        outer.ctx.tools.restrict(deny=["bash", "grep"])

        why = root.tools.why_visible("bash", "inner")
        assert not why.is_visible
        assert why.origin is not None
        assert (why.origin.plugin, why.origin.file) == ("root", __file__)
        (by,) = why.hidden_by
        assert (by.kind, by.name, by.scope) == ("restriction", "deny bash, grep", "outer")
        assert str(why).startswith('tool "bash" of plugin "root" at ')
        assert "is hidden from scope 'inner': deny bash, grep by plugin" in str(why)

        why = root.tools.why_visible("grep", "inner")
        assert why.is_visible
        assert why.hidden_by == ()
        assert why.origin is not None
        assert why.origin.scope == "inner"
        assert [one.scope for one in why.shadows] == [None]

        why = root.tools.why_visible("bsh", "inner")
        assert (why.is_visible, why.origin) == (False, None)
        assert 'did you mean "bash"?' in why.reason
        assert root.tools.why_visible("glob", None).is_visible


async def test_hidden_and_missing_tools_are_the_same_to_the_model() -> None:
    """Same result, same events, nothing that tells them apart."""
    async with tree() as root:
        outer, _ = chain(root)
        outer.ctx.tools.restrict(deny=["bash"])
        journal: list[object] = []
        for event in ("tools/pre-execute", "tools/post-execute"):
            root.on(event, lambda *_: journal.append("asked"))
        root.on("tools/result", lambda call, result: journal.append((call.tool, call.plugin)))
        hidden = await root.tools.execute("bash", {"x": 1}, scope="outer")
        missing = await root.tools.execute("dash", {"x": 1}, scope="outer")
        assert hidden.text.replace("bash", "dash") == missing.text
        assert hidden.status == missing.status == "unknown"
        assert hidden.text == 'unknown tool "bash"; available tools: glob, grep, of_outer'
        assert journal == [(None, None), (None, None)]
