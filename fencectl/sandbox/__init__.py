"""An API server inside this process, real enough for kubectl. Imports nothing of the package but core."""

from fencectl.sandbox.clock import SandboxClock
from fencectl.sandbox.faults import Fault, Gate
from fencectl.sandbox.requestlog import LoggedRequest
from fencectl.sandbox.requests import Request, Response, make_request
from fencectl.sandbox.server import Sandbox
from fencectl.sandbox.status import StatusError
from fencectl.sandbox.users import Rule, User

__all__ = [
    "Fault",
    "Gate",
    "LoggedRequest",
    "Request",
    "Response",
    "Rule",
    "Sandbox",
    "SandboxClock",
    "StatusError",
    "User",
    "make_request",
]
