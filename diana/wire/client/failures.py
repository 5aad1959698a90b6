"""A failed call as a value on the wire, and back to the error a Python caller catches."""

from __future__ import annotations

from diana.errors import Denied, DianaError, Overloaded, UnknownCall, Unplaceable, Unreachable, UsageError, WaitTimedOut
from diana.wire.client.messages import Failure

_BY_CODE: dict[str, type[DianaError]] = {
    error.code: error for error in (UsageError, Denied, Unplaceable, Unreachable, WaitTimedOut)
}


_OLDER = "does not know it; its release may be older than yours"
"""The end of what a node says to a call it does not know, in all releases."""


def failure_of(error: DianaError) -> Failure:
    retry_after_s = error.retry_after_s if isinstance(error, Overloaded) else 0.0
    return Failure(code=error.code, text=str(error), retry_after_s=retry_after_s)


def error_of(failure: Failure) -> DianaError:
    """Return the error for a failure; codes of a newer release become a plain DianaError."""
    if failure.code == Overloaded.code:
        return Overloaded(failure.text, failure.retry_after_s or 1.0)
    if failure.text.endswith(_OLDER):
        return UnknownCall(failure.text)
    return _BY_CODE.get(failure.code, DianaError)(failure.text)
