"""`harness_plugins.llm.api`: what adapters and those who use them share."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys

import pytest
from harness_plugins import llm_scripted
from harness_plugins.llm.api import (
    Message,
    ModelAdapter,
    ModelError,
    Thinking,
    ToolRequest,
    as_data,
    find_adapter,
    message_from,
    providers,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from harness_core import Context
from harness_core.errors import ServiceConflictError

REQUESTS = st.builds(ToolRequest, st.text(), st.text(), st.text())
THOUGHTS = st.builds(Thinking, st.text(), st.text(), st.text(), st.booleans())
ROLES = st.sampled_from(["user", "assistant", "tool"])
MESSAGES = st.builds(
    Message,
    ROLES,
    st.text(),
    requests=st.lists(REQUESTS, max_size=2),
    thinking=st.lists(THOUGHTS, max_size=2),
    call_id=st.text(),
    is_error=st.booleans(),
)


@settings(max_examples=60, deadline=None)
@given(MESSAGES)
def test_a_message_that_was_written_down_reads_back_equal(message: Message) -> None:
    """Through JSON, which holds nothing that has its default."""
    text = json.dumps(as_data(message))
    assert message_from(json.loads(text)) == message
    assert hash(message_from(json.loads(text))) == hash(message)
    assert as_data(Message("user", "Hi")) == {"role": "user", "text": "Hi"}


@pytest.mark.parametrize(
    "data", [{}, {"role": "system"}, {"role": "user", "txet": ""}, {"role": "user", "requests": 5}]
)
def test_what_is_no_message_is_refused(data: dict[str, object]) -> None:
    """A fault in what was written down is not read as something else."""
    with pytest.raises(ValueError, match="no message"):
        message_from(data)


@pytest.mark.asyncio
async def test_an_adapter_is_found_by_its_provider_or_alone() -> None:
    """And who asks for another one hears which there are."""
    async with Context() as root:
        with pytest.raises(ModelError, match="no provider is named; mount one"):
            find_adapter(root)
        first = await root.plugin(llm_scripted, turns=[])
        assert isinstance(find_adapter(root), ModelAdapter)
        await root.plugin(llm_scripted, turns=[], provider="other")
        assert providers(root) == ("other", "scripted")
        assert find_adapter(root, "other").provider == "other"
        both = r"give the agent a `provider` \(providers: other, scripted\)"
        with pytest.raises(ModelError, match=both):
            find_adapter(root)
        with pytest.raises(ModelError, match='did you mean "scripted"') as raised:
            find_adapter(root, "scriptde")
        assert (raised.value.kind, raised.value.provider) == ("unavailable", "scriptde")
        await first.dispose()
        assert providers(root) == ("other",)


@pytest.mark.asyncio
async def test_two_adapters_of_one_provider_are_refused() -> None:
    """Whichever is asked must be the one that is meant."""
    async with Context() as root:
        await root.plugin(llm_scripted, turns=[])
        with pytest.raises(ServiceConflictError, match="llm_scripted"):
            await root.plugin(llm_scripted, turns=[])


def test_an_error_travels_with_its_facts() -> None:
    """Pickled and back."""
    error = ModelError("no", kind="overloaded", provider="p", status=529, retry_after=1.5)
    back = pickle.loads(pickle.dumps(error))
    assert str(back) == str(error) == "p: no"
    assert vars(back) == vars(error)
    assert back.is_passing


def test_no_sdk_is_loaded_before_its_plugin_is() -> None:
    """Neither by the door nor by the plugins' modules."""
    modules = ["harness_core", "harness_plugins.llm.api", "harness_plugins.llm.remote.api"]
    modules += [f"harness_plugins.llm_{name}" for name in ("openai", "anthropic", "scripted")]
    modules += ["harness_plugins.llm_openai.api", "harness_plugins.llm_anthropic.api"]
    heavy = ["openai", "anthropic", "httpx", "httpx2", "pydantic", "ruamel", "mcp"]
    code = f"import sys, {', '.join(modules)}; print([n for n in {heavy} if n in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("plugin", "missing"),
    [
        ("openai", "openai"),
        ("openai", "httpx2"),
        ("anthropic", "anthropic"),
        ("anthropic", "httpx2"),
        ("scripted", "ruamel"),
    ],
)
def test_a_missing_library_is_named_with_its_extra(plugin: str, missing: str) -> None:
    """In the error of the plugin's load."""
    program = f"""
import sys, anyio
sys.modules[{missing!r}] = None
from harness_core import Context
from harness_core.errors import PluginError
from harness_plugins import llm_{plugin}
config = {{"file": "replies.yaml"}} if {plugin == "scripted"} else {{}}
async def main():
    async with Context() as root:
        try:
            await root.plugin(llm_{plugin}, config)
        except PluginError as error:
            print(error)
anyio.run(main)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert f"llm_{plugin} needs {missing}, which is not installed" in done.stdout
    assert f'pip install "harness-core[{plugin}]"' in done.stdout
