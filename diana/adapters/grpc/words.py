"""Failures of gRPC calls, in words for an operator."""

from __future__ import annotations

import re

import grpc

from diana.errors import one_line

MOST = 400

# How HTTP/2 ended a stream follows the reason: "Stream removed (Socket closed (GOAWAY received; Error code: 0; ...".
_INNARDS = re.compile(r"\s*\((?:Socket closed|GOAWAY).*", re.DOTALL)


def told(error: grpc.aio.AioRpcError) -> str:
    """One line of at most `MOST` characters, never empty."""
    return one_line(_INNARDS.sub("", str(error.details() or "")))[:MOST] or str(error.code().name)
