"""Errors as a user sees them: one line on standard error, never a traceback.

A fault of ours keeps its evidence in a file of its own, because one line is not enough to mend it.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Sequence
from contextlib import suppress

from diana.errors import DianaError, UsageError, one_line, quoted

INTERNAL = 70
"""Exit code of a fault of ours, apart from all that a user can mend."""
_NO_PATH = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG, errno.ELOOP)
"""Faults of a path that whoever named it can mend."""
_NOT_WRITTEN = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


def nearest(word: str, known: Sequence[str]) -> str:
    """`did you mean X?`, or where to look."""
    import difflib

    # Hyphens in front make all options alike.
    bare = {name.lstrip("-"): name for name in known}
    close = difflib.get_close_matches(word.partition("=")[0].lstrip("-"), bare, 1, 0.7)
    return f"did you mean {bare[close[0]]}?" if close else "see diana --help"


def report(error: Exception, words: Sequence[str]) -> int:
    """Prints the line; the exit code."""
    if isinstance(error, UnicodeEncodeError) and (_is_of_bytes(error) or _in_locale(error)):
        error = not_text(error)
    elif isinstance(error, FileNotFoundError) and _stands_nowhere():
        error = UsageError("the working directory is gone; change to one that is there")
    if isinstance(error, DianaError):
        complain(str(error))
        return error.exit_code
    if isinstance(error, OSError) and error.errno in _NOT_WRITTEN and error.filename is None:
        hush()
        complain(f"standard output: {error.strerror}; make room, or write it elsewhere")
        return UsageError.exit_code
    if isinstance(error, OSError) and error.errno in _NO_PATH and _was_named(error.filename, words):
        may = ", or have this account allowed there" if isinstance(error, PermissionError) else ""
        complain(f"{error.filename}: {error.strerror}; name another path{may}")
        return UsageError.exit_code
    complain(f"internal error: {type(error).__name__}: {error}; the evidence is in {_evidence(error, words)}")
    return INTERNAL


def not_text(error: UnicodeEncodeError) -> UsageError:
    """The mistake of a name or a text, from outside, that is not UTF-8 or not of this locale."""
    odd = quoted(error.object[max(error.start - 40, 0) : error.end + 40])
    try:
        os.fsencode(error.object).decode()
    except UnicodeError:
        if _is_of_bytes(error):
            return UsageError(f"{odd}: not UTF-8; rename the file, or write the text in UTF-8")
    return UsageError(f"{odd}: not of this locale; set LC_ALL=C.UTF-8")


def _is_of_bytes(error: UnicodeEncodeError) -> bool:
    """True if the text holds bytes that Python could not read, or half a letter, as JSON can spell it."""
    return "\ud800" <= error.object[error.start] <= "\udfff"


def _in_locale(error: UnicodeEncodeError) -> bool:
    return error.encoding not in ("utf-8", "utf8") and error.encoding == sys.getfilesystemencoding()


def _stands_nowhere() -> bool:
    """True if the working directory was deleted."""
    try:
        os.getcwd()
    except FileNotFoundError:
        return True
    return False


def _was_named(filename: object, words: Sequence[str]) -> bool:
    """True if a path is one that stands in the words of a command, or is the default of one, or lies in or beside it.
    A node touches its directory for reasons of its own, and keeps the evidence."""
    if not isinstance(filename, str) or not words or words[0] == "node":
        return False
    failed = os.path.abspath(filename)
    said = [word.partition("=")[2] if word.startswith("--") else word for word in words[1:]]
    for name in [*said, os.environ.get("DIANA_DATA", "~/.diana")]:
        path = os.path.abspath(os.path.expanduser(name))
        beside = os.path.dirname(path) == os.path.dirname(failed)
        if name and (beside or f"{failed}/".startswith(f"{path}/") or path.startswith(f"{failed}/")):
            return True
    return False


def complain(text: str) -> None:
    """The line, after what went to standard output before; also when one of the two cannot be written to any more."""
    try:
        sys.stdout.flush()
    except OSError:
        hush()
    with suppress(OSError):
        print(f"diana: {one_line(text)}", file=sys.stderr)


def hush() -> None:
    """Silence standard output, which nobody can read any more: what is still buffered must not raise again at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _evidence(error: Exception, words: Sequence[str]) -> str:
    import platform
    import tempfile
    import traceback

    from diana import __version__

    try:
        fd, name = tempfile.mkstemp(prefix="diana-fault-", suffix=".txt")
        with os.fdopen(fd, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(f"diana {__version__}, Python {platform.python_version()}, {platform.platform()}\n")
            # Arguments may hold secrets of the job's command; the verb and its options' names say enough.
            file.write("words: " + " ".join(w for k, w in enumerate(words) if k == 0 or w.startswith("--")) + "\n\n")
            file.write("".join(traceback.format_exception(error)))
    except OSError as failed:
        return f"no file ({failed.strerror})"
    return name
