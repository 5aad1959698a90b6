"""Keeps a user's credential in date: whoever uses it gets a new certificate for the same key when half of the time of
the old one is over, and keeps it in the folder. What goes wrong is left for the next use."""

from __future__ import annotations

import os
import tempfile
import time
from typing import TYPE_CHECKING

from diana.wire.pb import enrol_pb2
from diana.wire.renewal import SIGN, is_answer, is_due, request_again
from diana.wire.unreadable import UNREADABLE

if TYPE_CHECKING:
    from diana.client.credential import Credential

WAIT_S = 10.0

encode = enrol_pb2.SignRequest.SerializeToString
decode = enrol_pb2.SignResponse.FromString

__all__ = ["SIGN", "WAIT_S", "decode", "due", "encode", "keep"]


def due(credential: Credential) -> enrol_pb2.SignRequest | None:
    """The request for the credential's site; None: nothing is due yet."""
    try:
        now_s = time.time()
        if not is_due(credential.certificate, now_s):
            return None
        return request_again(credential.certificate, credential.key, now_s)
    except UNREADABLE:
        return None


def keep(credential: Credential, answer: enrol_pb2.SignResponse) -> None:
    """Put the new certificate into the folder, at once and whole. A folder that cannot be written keeps the old one."""
    if not is_answer(credential.certificate, answer.certificate):
        return
    try:
        fd, beside = tempfile.mkstemp(prefix=".user.pem.", dir=credential.folder)
        with os.fdopen(fd, "wb") as file:
            file.write(answer.certificate)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, os.path.join(credential.folder, "user.pem"))
    except OSError:
        return
