"""From what an SDK or the network raises to what a ModelError says."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, cast

from ..errors import ModelError, ModelErrorKind
from .fault import Fault
from .headers import count_of, retry_after

__all__ = ["describe_error_body", "fault_of", "refused_request"]

_TOO_LONG = re.compile(
    r"context_length_exceeded|maximum context length|context (?:window|limit|length|size)"
    r"|prompt is too long|request_too_large|too many (?:input )?tokens",
    re.IGNORECASE,
)
_NO_CREDIT = frozenset({"insufficient_quota", "billing_error", "billing_hard_limit_reached"})
_BY_NAME: Mapping[str, ModelErrorKind] = {
    "api_error": "overloaded",
    "authentication_error": "authentication",
    "billing_error": "authentication",
    "invalid_api_key": "authentication",
    "invalid_request_error": "invalid-request",
    "model_not_found": "not-found",
    "not_found_error": "not-found",
    "overloaded_error": "overloaded",
    "permission_error": "authentication",
    "rate_limit_error": "rate-limited",
    "rate_limit_exceeded": "rate-limited",
    "request_too_large": "too-long",
    "server_error": "overloaded",
    "timeout_error": "timed-out",
}
_BY_STATUS: Mapping[int, ModelErrorKind] = {
    401: "authentication",
    402: "authentication",
    403: "authentication",
    404: "not-found",
    408: "timed-out",
    409: "overloaded",
    413: "too-long",
    429: "rate-limited",
}


def refused_request(message: str, provider: str) -> ModelError:
    """Return the error for a request that cannot be put in this provider's terms."""
    return ModelError(message, kind="invalid-request", provider=provider)


def describe_error_body(body: object) -> tuple[str, str]:
    """Return (message, code) of an error as providers write it, in any of the usual shapes."""
    if not isinstance(body, Mapping):
        return (str(body).strip() if body else "", "")
    outer = cast("Mapping[str, Any]", body)
    inner: Any = outer.get("error", outer)
    if not isinstance(inner, Mapping):
        return str(inner), ""
    facts = cast("Mapping[str, Any]", inner)
    message = facts.get("message") or facts.get("detail") or facts.get("msg") or ""
    code = facts.get("code") or facts.get("type") or ""
    return str(message), str(code)


def fault_of(sdk: Any, error: Exception, address: str) -> Fault:
    """Return the facts of what `sdk` (the module of an official SDK) raised."""
    from .transport import network_fault  # late: it loads the HTTP library

    if isinstance(error, sdk.APIStatusError):
        return _status_fault(error)
    network = network_fault(error, address)
    if network is not None:
        return network
    if isinstance(error, sdk.APITimeoutError):
        return Fault(f"no answer from {address} in time", "timed-out")
    if isinstance(error, sdk.APIConnectionError):
        return Fault(f"no connection to {address}", "disconnected")
    if isinstance(error, sdk.APIError):
        return _told_fault(getattr(error, "body", None), str(error))
    said = f"{type(error).__name__}: {error}"
    return Fault(f"no reply can be read from {address} ({said})", "protocol")


def _status_fault(error: Any) -> Fault:
    status: int = error.status_code
    headers: Mapping[str, str] = error.response.headers
    if status < 400:  # an error that was told in the middle of a stream
        return _told_fault(error.body, str(error))
    message, code = describe_error_body(error.body)
    message = message or str(error)
    if status == 404 and not code:  # no provider's own words, so it is the address that is wrong
        address = str(error.request.url).partition("?")[0]
        message = f"{message}; nothing is at {address}: check base_url"
    kind = _kind_of(status, code, message)
    named = f" ({code})" if code and code not in message else ""
    return Fault(f"{message}{named} (HTTP {status})", kind, status, retry_after(headers))


def _told_fault(body: object, otherwise: str) -> Fault:
    message, code = describe_error_body(body)
    message = message or otherwise
    status = count_of(code) if code.isdecimal() else None
    if status is not None and status >= 400:
        kind = _kind_of(status, code, message)
    else:
        status = None
        kind = "too-long" if _TOO_LONG.search(message) else _BY_NAME.get(code, "overloaded")
    named = f" ({code})" if code and code not in message else ""
    return Fault(f"{message}{named}, in the middle of the reply", kind, status)


def _kind_of(status: int, code: str, message: str) -> ModelErrorKind:
    if status == 429 and code in _NO_CREDIT:
        return "authentication"  # waiting does not help
    if status in (400, 422) and (_TOO_LONG.search(code) or _TOO_LONG.search(message)):
        return "too-long"
    if status >= 500:
        return "overloaded"
    return _BY_STATUS.get(status, "invalid-request")
