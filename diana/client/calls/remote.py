"""The program that runs in a job: calls one entry of the payload beside it and writes the outcomes down.

It travels with each group and is started by the site's own Python, which need not have diana or cloudpickle (that
travels, too). It uses the standard library alone, and words that an older Python reads as well: it has to be able to
say that it is the wrong one.
"""

import os
import sys

TYPE_CHECKING = False
"""`typing` itself costs more than all else here."""
if TYPE_CHECKING:
    from typing import BinaryIO

FOLDER = "_diana"
"""Folder in the job's directory, so that neither inputs nor modules of the user's are hidden."""
VALUE, FAULT, UNTOLD = b"V", b"E", b"U"
"""Kinds of outcomes: a pickled value; a pickled exception with its traceback; the text alone of what cannot be
pickled."""
LENGTH_BYTES = 8


def main(index: int, packed_by: str) -> None:
    found = "{}.{}".format(*sys.version_info[:2])
    if found != packed_by:
        sys.exit(
            f"these calls were packed by Python {packed_by}, and {sys.executable} here is Python {found};"
            f" install python{packed_by} there, or name one with GridExecutor(python=...)"
        )
    # The first place is where the link to this file leads: a cache of the site's.
    sys.path[0] = os.getcwd()
    sys.path.insert(0, os.path.join(os.getcwd(), FOLDER))
    import pickle

    with open(os.path.join(FOLDER, "payload"), "rb") as payload:
        function, calls = entry(payload, index)
    with open(os.path.join(FOLDER, f"result-{index}"), "wb") as out:
        try:
            call = pickle.loads(function)
            pairs = pickle.loads(calls)
        except BaseException as error:
            error.add_note("It was met while the call was unpacked; docs/python.md says how modules travel.")
            put(out, *told(error))
            return
        for arguments, keywords in pairs:
            try:
                value = call(*arguments, **keywords)
            except BaseException as error:
                # Whoever reads the results stops here, too.
                put(out, *told(error))
                return
            try:
                data = packed(value)
            except Exception as error:
                what = getattr(call, "__name__", repr(call))
                text = f"{what} returned a {type(value).__qualname__} that cannot be pickled ({error!r})"
                put(out, UNTOLD, traced(error), f"{text}; let it return plain data".encode())
                return
            put(out, VALUE, "", data)


def entry(payload: "BinaryIO", index: int) -> "list[bytes]":
    """Function and calls, both pickled, of the job `index`: four numbers in a table that the file's last one leads
    to."""
    payload.seek(-LENGTH_BYTES, os.SEEK_END)
    payload.seek(number(payload) + 4 * LENGTH_BYTES * index)
    spots = [number(payload) for _ in range(4)]
    found = []
    for start, length in (spots[:2], spots[2:]):
        payload.seek(start)
        found.append(payload.read(length))
    return found


def number(payload: "BinaryIO") -> int:
    return int.from_bytes(payload.read(LENGTH_BYTES), "little")


def packed(value: object) -> bytes:
    """Plain pickle where that will do: it starts three times as fast."""
    import pickle

    try:
        return pickle.dumps(value, 5)
    except Exception:
        import cloudpickle  # type: ignore[import-untyped]

        return bytes(cloudpickle.dumps(value, 5))


def told(error: BaseException) -> "tuple[bytes, str, bytes]":
    """Kind, traceback and content. Many an exception can be pickled and not be unpickled."""
    import pickle

    try:
        data = packed(error)
        pickle.loads(data)
    except Exception:
        return UNTOLD, traced(error), f"{type(error).__qualname__}: {error}".encode("utf-8", "backslashreplace")
    return FAULT, traced(error), data


def traced(error: BaseException) -> str:
    import traceback

    return "".join(traceback.format_exception(type(error), error, error.__traceback__))


def put(out: "BinaryIO", kind: bytes, text: str, data: bytes) -> None:
    trace = text.encode("utf-8", "backslashreplace")
    out.write(kind + len(trace).to_bytes(LENGTH_BYTES, "little") + len(data).to_bytes(LENGTH_BYTES, "little"))
    out.write(trace)
    out.write(data)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
