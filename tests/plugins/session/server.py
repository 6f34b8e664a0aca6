"""A real PostgreSQL server in a temporary directory, for as long as the tests run."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import attrs

__all__ = ["Server", "find_programs", "start"]


@attrs.define(eq=False)
class Server:
    """A running server that listens on a socket in `directory`, and nowhere else."""

    directory: Path
    client: str
    process: subprocess.Popen[bytes]
    count: int = 0

    def url(self, database: str = "postgres", user: str = "postgres") -> str:
        """Return the URL of a database, as a user would write it."""
        return f"postgresql://{user}@/{database}?host={self.directory}"

    def sql(self, command: str, database: str = "postgres") -> str:
        """Run a command with the server's own client, and return what it says."""
        where = ["-h", str(self.directory), "-U", "postgres", "-d", database]
        done = subprocess.run(
            [self.client, "-XAtq", *where, "-c", command],
            check=True,
            capture_output=True,
            text=True,
        )
        return done.stdout.strip()

    def new_database(self) -> str:
        """Make an empty database and return its name."""
        self.count += 1
        name = f"test{self.count}"
        self.sql(f"create database {name}")
        return name

    def new_user(self) -> str:
        """Make a user who has a schema of the same name, and return the name.

        A user finds his own tables there; a database for each test would take long to copy.
        """
        self.count += 1
        name = f"test{self.count}"
        self.sql(f"create role {name} login; create schema authorization {name}")
        return name

    def clients(self) -> int:
        """Return how many connections there are, this one's apart."""
        return int(
            self.sql(
                "select count(*) from pg_stat_activity "
                "where backend_type = 'client backend' and pid <> pg_backend_pid()"
            )
        )

    def stop(self) -> None:
        """Stop the server at once, and remove what it wrote."""
        self.process.send_signal(signal.SIGQUIT)
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        shutil.rmtree(self.directory, ignore_errors=True)


def find_programs() -> tuple[str, str, str] | None:
    """Return the paths of `initdb`, `postgres` and `psql`; None if one of them is missing."""
    homes = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    path = os.pathsep.join([os.environ.get("PATH", ""), *map(str, homes)])
    initdb, postgres, client = (
        shutil.which(name, path=path) for name in ("initdb", "postgres", "psql")
    )
    return (initdb, postgres, client) if initdb and postgres and client else None


def start(initdb: str, postgres: str, client: str) -> Server:
    """Start a server. It refuses to run as root, so root runs it as somebody else."""
    directory = Path(tempfile.mkdtemp(prefix="pg", dir="/tmp"))  # a socket's path is short
    run: dict[str, Any] = {"stdin": subprocess.DEVNULL, "cwd": directory}
    if os.geteuid() == 0:
        user = _somebody()
        os.chown(directory, user.pw_uid, user.pw_gid)
        run |= {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
    data = directory / "data"
    subprocess.run(
        [initdb, "-D", data, "-A", "trust", "-U", "postgres", "-E", "UTF8", "--no-sync"],
        check=True,
        capture_output=True,
        **run,
    )
    settings = {
        "listen_addresses": "",
        "unix_socket_directories": directory,
        "fsync": "off",  # the server itself is not killed
        "max_connections": "100",
        "log_min_messages": "fatal",
    }
    options = [part for key, value in settings.items() for part in ("-c", f"{key}={value}")]
    with open(directory / "log", "wb") as log:
        process = subprocess.Popen(
            [postgres, "-D", data, *options], stdout=log, stderr=subprocess.STDOUT, **run
        )
    server = Server(directory, client, process)
    try:
        _wait_ready(server)
    except BaseException:
        server.stop()
        raise
    return server


def _wait_ready(server: Server) -> None:
    deadline = time.monotonic() + 30
    while True:
        try:
            server.sql("select 1")
            return
        except subprocess.CalledProcessError:
            if server.process.poll() is not None or time.monotonic() > deadline:
                said = (server.directory / "log").read_text(errors="replace")
                raise RuntimeError(f"the server did not start: {said}") from None
            time.sleep(0.05)


def _somebody() -> pwd.struct_passwd:
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    raise RuntimeError("there is no user that the server could run as")
