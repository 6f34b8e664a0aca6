"""For commands that plugins bring: the parts that the commands here are made of.

A package adds a command to `harness` with an entry point of the group `harness.commands` whose
object is a click command:

    [project.entry-points."harness.commands"]
    greet = "my_package.commands:greet"

It is imported when it is called, or listed by `harness --help`.
"""

from __future__ import annotations

from ..app import Application as Application
from ..app import Settings as Settings
from .faults import Fault as Fault
from .faults import Faulty as Faulty
from .frame import EPILOG as EPILOG
from .frame import common as common
from .frame import print_json as print_json
from .frame import run_command as run_command
from .frame import run_in_frame as run_in_frame
from .frame import stop_at_faults as stop_at_faults
from .frame import warn as warn
from .living import Happening as Happening
from .living import Living as Living
from .request import show_request as show_request
from .run import report_errors as report_errors
from .safe import one_line as one_line
from .safe import visible as visible
from .session import ScopeView as ScopeView
from .session import Session as Session
from .session import open_session as open_session
from .telling import show_differences as show_differences
from .telling import show_happening as show_happening

__all__ = [
    "EPILOG",
    "Application",
    "Fault",
    "Faulty",
    "Happening",
    "Living",
    "ScopeView",
    "Session",
    "Settings",
    "common",
    "one_line",
    "open_session",
    "print_json",
    "report_errors",
    "run_command",
    "run_in_frame",
    "show_differences",
    "show_happening",
    "show_request",
    "stop_at_faults",
    "visible",
    "warn",
]
