"""`persona`: a text or a file, in the global layer or in an agent's scope."""

from __future__ import annotations

from pathlib import Path

import pytest
from harness_plugins import persona

from harness_core import Context, create_scope
from harness_core.errors import ConfigError
from harness_core.prompt import SystemPrompt, render_prompt
from harness_core.testing import assert_no_residue, check_plugin
from tests.loader.harness import running

pytestmark = pytest.mark.asyncio


async def test_in_the_global_layer_it_follows_the_deployments_persona() -> None:
    """That section is taken there; this one is called `persona`."""
    async with Context() as root:
        await root.plugin(SystemPrompt, include_harness_identity=False, persona="Deployed.")
        await root.plugin(persona, text="Mine.")
        assembly = await root.system_prompt.assemble()
        assert [section.name for section in assembly.sections] == ["deployment:persona", "persona"]
        assert render_prompt(assembly) == "Deployed.\n\nMine."


async def test_in_a_scope_it_replaces_every_outer_persona() -> None:
    """The deployment's, that of all agents, and a parent's."""
    async with Context() as root:
        await root.plugin(SystemPrompt, include_harness_identity=False, persona="Deployed.")
        await root.plugin(persona, text="Everybody's.")
        parent = create_scope(root, "parent")
        child = create_scope(root, "child", parent="parent")
        await parent.ctx.plugin(persona, text="Parent's.")
        fiber = await child.ctx.plugin(persona, text="Child's.")
        prompt = root.system_prompt
        assert render_prompt(await prompt.assemble(scope="parent")) == "Parent's."
        assert render_prompt(await prompt.assemble(scope="child")) == "Child's."
        await fiber.dispose()
        assert render_prompt(await prompt.assemble(scope="child")) == "Parent's."


async def test_its_text_refers_to_variables_unless_it_is_literal() -> None:
    """As every text."""
    async with Context() as root:
        await root.plugin(SystemPrompt, include_harness_identity=False)
        root.system_prompt.variable("who", "Ada")
        fiber = await root.plugin(persona, text="I am {{who}}.")
        assert render_prompt(await root.system_prompt.assemble()) == "I am Ada."
        await fiber.update({"text": "I am {{who}}.", "literal": True})
        assert render_prompt(await root.system_prompt.assemble()) == "I am {{who}}."


@pytest.mark.parametrize("config", [{}, {"text": "a", "file": "b"}])
async def test_either_text_or_file(config: dict[str, str]) -> None:
    """Not none and not both."""
    async with Context() as root:
        await root.plugin(SystemPrompt)
        with pytest.raises(ConfigError, match="either text or file"):
            await root.plugin(persona, config)


async def test_a_file_starts_at_the_manifest(tmp_path: Path) -> None:
    """Byte-order mark, CRLF and the last line end are no part of the persona."""
    (tmp_path / "me.md").write_bytes(b"\xef\xbb\xbfOne\r\ntwo\r\n")
    manifest = "- {name: persona, config: {file: me.md}}\n"
    async with running(tmp_path, "system_prompt", manifest=manifest) as (root, _):
        (*_, section) = (await root.system_prompt.assemble()).sections
        assert section.text == "One\ntwo"


@pytest.mark.parametrize("content", [None, b"\xff"])
async def test_a_file_that_cannot_be_read_is_said(tmp_path: Path, content: bytes | None) -> None:
    """At the value in the manifest."""
    if content is not None:
        (tmp_path / "me.md").write_bytes(content)
    manifest = "- {name: persona, config: {file: me.md}}\n"
    async with running(tmp_path, "system_prompt", manifest=manifest) as (_, loader):
        (fault,) = [row.fault for row in loader.mounted.values() if row.fault is not None]
        assert (fault.line, fault.column) == (1, 34)
        assert "me.md" in fault.message


async def test_its_file_is_followed_and_its_life_leaves_nothing(tmp_path: Path) -> None:
    """Under `harness dev`, a change of the file restarts the plugin."""
    file = tmp_path / "me.md"
    file.write_text("One")
    async with Context() as root:
        await root.plugin(SystemPrompt)
        async with assert_no_residue(root):
            fiber = await root.plugin(persona, {"file": str(file)})
            assert str(fiber.effects()[0]).startswith(f'watched file "{file}"')
            file.write_text("Two")
            await fiber.restart()
            (*_, section) = (await root.system_prompt.assemble()).sections
            assert section.text == "Two"
            await fiber.dispose()
    await check_plugin(persona, {"file": str(file)}, raises=True)
