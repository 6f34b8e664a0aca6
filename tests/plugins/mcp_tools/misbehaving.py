"""A server of the Model Context Protocol that does everything a server should not.

It speaks JSON-RPC by hand, for no library would let it behave like this. Its only argument is a
JSON object of the faults that it is to have; see `Faults`. It knows the old handshake alone.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

SCHEMA: dict[str, Any] = {"type": "object", "properties": {}}


class Faults:
    """What is wrong with this server."""

    start: float = 0
    """Seconds before it reads anything."""
    die: str = ""
    """Exits with code 3: at "start", or when it is asked for this method."""
    die_runs: int = 1000000
    """In so many first runs; later ones are well."""
    mute: str = ""
    """Does not answer this method."""
    deaf: str = ""
    """Reads nothing more once it was asked this method, and lives on."""
    life: float = 0
    """Seconds after which it exits with code 4."""
    tools: list[Any] = ["echo"]  # noqa: RUF012 - replaced, never changed
    """Names, or whole tools as they stand in a listing."""
    page: int = 1000
    """Tools on a page."""
    circles: bool = False
    """Each page says that the first is next."""
    ticks: float = 0
    """Seconds between two changes of the list."""
    noise: bool = False
    """Writes what is no protocol, around each message."""
    errors: int = 0
    """Lines on the standard error."""
    stubborn: bool = False
    """Stays when its input ends and when it is asked to go."""
    child: str = ""
    """Has a child; "detached" in it: in a session of its own; "bare": with no environment."""
    directory: str = ""
    """Where it notes its process numbers, and what it was asked."""
    resources: dict[str, Any] = {}  # noqa: RUF012
    prompts: list[Any] = []  # noqa: RUF012

    def __init__(self, given: dict[str, Any]) -> None:
        for name, value in given.items():
            if not hasattr(Faults, name):
                raise SystemExit(f"no such fault: {name}")
            setattr(self, name, value)


class Server:
    """One run of the server."""

    def __init__(self, faults: Faults) -> None:
        self.faults = faults
        self.tools: Any = list(faults.tools)
        self.resources = dict(faults.resources)
        self.lock = threading.Lock()
        self.run_number = self._note_pid(os.getpid())

    def _note_pid(self, pid: int) -> int:
        if not self.faults.directory:
            return 1
        directory = Path(self.faults.directory)
        (directory / f"pid.{pid}").write_text(str(pid))
        with (directory / "runs").open("a") as file:
            file.write(f"{pid}\n")
        return len((directory / "runs").read_text().splitlines())

    def is_ill(self) -> bool:
        return self.run_number <= self.faults.die_runs

    def send(self, message: dict[str, Any]) -> None:
        line = json.dumps({"jsonrpc": "2.0", **message})
        if self.faults.noise:
            line = f"Hello! {{\n[1, 2\n{{}}\n{line}\n\x1b[31mred\x1b[0m \xff"
        with self.lock:
            sys.stdout.buffer.write(line.encode("latin-1") + b"\n")
            sys.stdout.buffer.flush()

    def say_changed(self, what: str = "tools") -> None:
        self.send({"method": f"notifications/{what}/list_changed"})

    def main(self) -> None:
        faults = self.faults
        if faults.stubborn:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if faults.child:
            child = subprocess.Popen(
                ["/bin/sleep", "1000"],
                start_new_session="detached" in faults.child,
                env={} if "bare" in faults.child else None,
            )
            self._note_pid(child.pid)
        for number in range(faults.errors):
            print(f"complaint {number}", file=sys.stderr)
        if faults.die == "start" and self.is_ill():
            print("no licence", file=sys.stderr)
            raise SystemExit(3)
        time.sleep(faults.start)
        if faults.life:
            threading.Timer(faults.life, lambda: os._exit(4)).start()
        if faults.ticks:
            threading.Thread(target=self.tick, daemon=True).start()
        for line in sys.stdin:
            self.read(json.loads(line))
        while faults.stubborn:
            time.sleep(1)

    def tick(self) -> None:
        for number in range(1000000):
            time.sleep(self.faults.ticks)
            self.tools = [*self.faults.tools, f"tick{number}"]
            self.say_changed()

    def read(self, message: dict[str, Any]) -> None:
        method = message.get("method", "")
        if self.faults.directory:
            with (Path(self.faults.directory) / "asked").open("a") as file:
                file.write(f"{method}\n")
        if method and method == self.faults.deaf:
            time.sleep(1000)
        if method and method == self.faults.die and self.is_ill():
            os._exit(3)
        if "id" not in message or method == self.faults.mute:
            return
        handler = getattr(self, "on_" + method.replace("/", "_"), None)
        if handler is None:
            self.send({"id": message["id"], "error": {"code": -32601, "message": "Unknown"}})
            return
        try:
            result = handler(message.get("params") or {})
        except LookupError as error:
            self.send({"id": message["id"], "error": {"code": -32602, "message": str(error)}})
            return
        if result is not None:
            self.send({"id": message["id"], "result": result})

    # Methods

    def on_initialize(self, params: dict[str, Any]) -> dict[str, Any]:
        return {
            "protocolVersion": "2025-06-18",
            "capabilities": {
                "tools": {"listChanged": True},
                "resources": {"listChanged": True},
                "prompts": {"listChanged": True},
            },
            "serverInfo": {"name": "misbehaving", "version": "0"},
        }

    def on_tools_list(self, params: dict[str, Any]) -> dict[str, Any]:
        if self.tools is None:
            raise LookupError("no list today")
        begin = int(params.get("cursor") or 0)
        end = begin + self.faults.page
        page = [
            {"name": one, "description": f"Tool {one}.", "inputSchema": SCHEMA}
            if isinstance(one, str)
            else one
            for one in self.tools[begin:end]
        ]
        more = {"nextCursor": str(end)} if end < len(self.tools) else {}
        if self.faults.circles:
            more = {"nextCursor": "0"}
        return {"tools": page, **more}

    def on_resources_list(self, params: dict[str, Any]) -> dict[str, Any]:
        return {"resources": [{"uri": uri, "name": uri[-5:]} for uri in self.resources]}

    def on_resources_read(self, params: dict[str, Any]) -> dict[str, Any]:
        content = self.resources[params["uri"]]
        return {"contents": [{"uri": params["uri"], **content}]}

    def on_prompts_list(self, params: dict[str, Any]) -> dict[str, Any]:
        return {"prompts": self.faults.prompts}

    def on_prompts_get(self, params: dict[str, Any]) -> dict[str, Any]:
        text = f"{params['name']} {json.dumps(params.get('arguments') or {})}"
        parts = (("user", text), ("assistant", "Very well."))
        return {
            "messages": [
                {"role": role, "content": {"type": "text", "text": said}} for role, said in parts
            ]
        }

    def on_tools_call(self, params: dict[str, Any]) -> dict[str, Any] | None:
        arguments = params.get("arguments") or {}
        call = getattr(self, "call_" + params["name"], None)
        return call(arguments) if call is not None else text(json.dumps(arguments))

    # Tools

    def call_crash(self, arguments: dict[str, Any]) -> None:
        os._exit(7)

    def call_slow(self, arguments: dict[str, Any]) -> None:
        """Never answers."""

    def call_huge(self, arguments: dict[str, Any]) -> dict[str, Any]:
        return text("x" * arguments["size"])

    def call_fail(self, arguments: dict[str, Any]) -> dict[str, Any]:
        return {**text("it is broken"), "isError": True}

    def call_refuse(self, arguments: dict[str, Any]) -> None:
        raise LookupError("no such thing")

    def call_environment(self, arguments: dict[str, Any]) -> dict[str, Any]:
        return text(json.dumps({"environment": dict(os.environ), "directory": os.getcwd()}))

    def call_answer(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Answer with exactly this result."""
        return arguments["result"]  # type: ignore[no-any-return]

    def call_set_tools(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Change the list, and say so, as often as wanted."""
        self.tools = arguments.get("tools", self.tools)
        for _ in range(arguments.get("times", 1)):
            self.say_changed()
        return text("done")

    def call_set_resources(self, arguments: dict[str, Any]) -> dict[str, Any]:
        self.resources = arguments["resources"]
        self.say_changed("resources")
        return text("done")


def text(said: str) -> dict[str, Any]:
    """Return a result of one text."""
    return {"content": [{"type": "text", "text": said}]}


if __name__ == "__main__":
    Server(Faults(json.loads(sys.argv[1]))).main()
