"""Keys: from the environment or a named file, when they are needed, and from nowhere else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from harness_plugins.llm.api import ModelError, find_adapter

from harness_core import Context
from harness_core.errors import ConfigError
from tests.loader.harness import running

from .server import ModelServer, serving
from .speak import HELLOS, KEY, PATHS, PLUGINS, adapter_for, reply_of

pytestmark = [pytest.mark.asyncio, pytest.mark.parametrize("kind", ["openai", "anthropic"])]
USUAL = {"openai": "OPENAI_API_KEY", "anthropic": "ANTHROPIC_API_KEY"}


async def sent_key(kind: str, **config: Any) -> str | None:
    """Return the key that the server gets."""
    async with serving(HELLOS[kind]) as server, adapter_for(kind, server, **config) as adapter:
        await reply_of(adapter)
        headers = server.asked[0].headers
        assert "x-api-key" not in headers
        return headers.get("authorization", "").removeprefix("Bearer ") or None


async def test_the_key_is_in_the_usual_variable_or_in_a_named_one(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A named one is the only one that is looked at."""
    assert await sent_key(kind) == KEY
    monkeypatch.setenv("OTHER_KEY", " other-key-123 \n")
    assert await sent_key(kind, key_env="OTHER_KEY") == "other-key-123"


async def test_a_server_that_wants_no_key_gets_none(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With an empty name; or with an address of its own and no usual variable."""
    assert await sent_key(kind, key_env="") is None
    monkeypatch.delenv(USUAL[kind])
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", "something-else")
    assert await sent_key(kind) is None


async def test_a_key_that_is_missing_says_where_it_was_looked_for(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The named variable; the usual one where the provider itself is asked."""
    async with Context() as root:
        monkeypatch.delenv(USUAL[kind])
        for config, name in (({}, USUAL[kind]), ({"key_env": "NO_KEY"}, "NO_KEY")):
            fiber = await root.plugin(PLUGINS[kind], config)
            with pytest.raises(ModelError, match=f"{name} is not set") as raised:
                await reply_of(find_adapter(root))
            assert raised.value.kind == "authentication"
            await fiber.dispose()


async def test_a_key_is_read_anew_for_each_request(
    kind: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """From a variable and from a file, whose end of line is no part of it."""
    file = tmp_path / "key"

    async def two(server: ModelServer, **config: Any) -> None:
        async with adapter_for(kind, server, **config) as adapter:
            for key in ("key-number-1", "key-number-2"):
                monkeypatch.setenv(USUAL[kind], key)
                file.write_bytes(b"\xef\xbb\xbf" + key.encode() + b"\r\n")
                await reply_of(adapter)
                assert server.asked[-1].headers["authorization"] == f"Bearer {key}"

    async with serving(HELLOS[kind]) as server:
        await two(server)
        monkeypatch.setenv(USUAL[kind], "not-this-one")
        await two(server, key_file=str(file))


async def test_a_relative_key_file_starts_at_the_manifest(
    kind: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Not at the working directory."""
    (tmp_path / "secret").write_text("key-in-a-file\n")
    async with serving(HELLOS[kind]) as server:
        manifest = f"""
            - name: harness_plugins.llm_{kind}
              config: {{base_url: "{server.url + PATHS[kind]}", key_file: secret}}
            """
        async with running(tmp_path, manifest=manifest) as (root, _):
            await reply_of(find_adapter(root))
            assert server.asked[0].headers["authorization"] == "Bearer key-in-a-file"


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (None, "No such file"),
        (b" \n", "it is empty"),
        (b"\xff\xfe", "it is no UTF-8 text"),
        (b"secret-one\nsecret-two", "expected one line"),
        ("sécret-kéy".encode(), "expected one line"),
    ],
)
async def test_a_key_file_that_gives_no_key_says_why(
    kind: str, tmp_path: Path, content: bytes | None, problem: str
) -> None:
    """And never what is in it."""
    file = tmp_path / "key"
    if content is not None:
        file.write_bytes(content)
    async with (
        serving(HELLOS[kind]) as server,
        adapter_for(kind, server, key_file=str(file)) as adapter,
    ):
        with pytest.raises(ModelError, match=problem) as raised:
            await reply_of(adapter)
        assert raised.value.kind == "authentication"
        assert str(file) in str(raised.value)
        assert "secret" not in str(raised.value).replace(str(file), "")
        assert not server.asked


@pytest.mark.parametrize(
    ("config", "problem"),
    [
        ({"key_env": "A", "key_file": "b"}, "key_env and key_file are both given"),
        ({"headers": {"Authorization": "Bearer x-y-z"}}, "a key comes from key_env or key_file"),
        ({"headers": {"X-API-Key": "x-y-z"}}, "a key comes from key_env or key_file"),
        ({"base_url": "https://me:x-y-z@host/v1"}, "a user name or a password"),
        ({"base_url": "host/v1"}, "expected http://"),
        ({"options": {"model": "m", "messages": []}}, "messages, model: the request has its own"),
        ({"timeout": {"connect": 0}}, "expected a number above 0"),
        ({"max_tokens": 0}, "expected a number above 0"),
        ({"provider": ""}, "provider"),
        ({"key": "x-y-z"}, "unknown key 'key'"),
    ],
)
async def test_a_config_that_cannot_be_meant_is_refused(
    kind: str, config: dict[str, Any], problem: str
) -> None:
    """Before anything is asked, with what is wrong, and without a secret in the message."""
    async with Context() as root:
        with pytest.raises(ConfigError, match=problem) as raised:
            await root.plugin(PLUGINS[kind], config)
        assert "x-y-z" not in str(raised.value)


async def test_headers_do_not_show_in_the_config(kind: str) -> None:
    """What they hold may be between two parties."""
    config = PLUGINS[kind].Config(headers={"x-tenant": "between-us"})
    assert "between-us" not in repr(config)


async def test_a_request_says_which_model_and_leaves_the_rest_to_the_adapter(kind: str) -> None:
    """No model anywhere, or options that would replace the request itself: refused."""
    from harness_plugins.llm.api import ModelRequest

    async with serving(HELLOS[kind]) as server, adapter_for(kind, server) as adapter:
        for request, problem in (
            (ModelRequest(""), "no model is named"),
            (ModelRequest("m", options={"tools": []}), "options hold tools"),
        ):
            with pytest.raises(ModelError, match=problem) as raised:
                await reply_of(adapter, request)
            assert raised.value.kind == "invalid-request"
        assert not server.asked
