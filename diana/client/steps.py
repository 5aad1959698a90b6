"""The work of both clients beyond one call, written once: generators that yield what to send and take the answer.

`Client` and `AsyncClient` differ only in how they carry a step out.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from typing import IO, TYPE_CHECKING, Any, Generic, TypeVar

import msgspec

from diana.client.where import working_folder
from diana.errors import DianaError, Unplaceable, UsageError, quoted
from diana.wire.client.decisions import Decision
from diana.wire.client.messages import (
    Option,
    PlannedGroup,
    PlanResponse,
    StatusRequest,
    StatusResponse,
    SubmitRequest,
    SubmitResponse,
    UploadedFile,
    UploadRequest,
)
from diana.wire.client.permits import Permit, ToSign

T = TypeVar("T")

CHUNK_BYTES = 1 << 20
MOST_ROUNDS = 8
"""Rounds in which the node asks for files: a sweep's table first, then the files it names."""
_LINES = ("require", "require-link", "require-set", "input")
"""Options that hold one entry a line; others stand between commas."""
LOOK_FIRST_S, LOOK_MOST_S = 0.02, 0.5
"""Pause between two looks of `as_completed`; it grows while nothing ends."""

if TYPE_CHECKING:
    from diana.client.where import StrPath

    Job = StrPath | bytes | Mapping[str, Any]


class MethodCall(msgspec.Struct, frozen=True):
    method: str
    request: object


class FileUpload(msgspec.Struct, frozen=True):
    path: str
    sha256: str

    def requests(self) -> Iterator[UploadRequest]:
        """The file in pieces; at least one, which names the hash. UsageError, before any, where it is gone by now."""
        try:
            file = open(self.path, "rb", opener=_nonblocking)  # noqa: SIM115
        except OSError as error:
            raise UsageError(f"file {self.path}: {error.strerror}; it was there just now, submit again") from None
        return self._pieces(file)

    def _pieces(self, file: IO[bytes]) -> Iterator[UploadRequest]:
        with file:
            yield UploadRequest(sha256=self.sha256, data=file.read(CHUNK_BYTES))
            while data := file.read(CHUNK_BYTES):
                yield UploadRequest(data=data)


class CallResult(Generic[T]):
    def __init__(self, value: T) -> None:
        self.value = value


class PreparedSubmission(msgspec.Struct, frozen=True):
    """A submission before anything was sent. Files the job names are relative to `folder`."""

    request: SubmitRequest
    folder: str


def prepare(
    job: Job, key: str | None, options: Mapping[str, object] | None, format: str | None, folder: StrPath | None
) -> PreparedSubmission:
    """`job` is a job file's path, its bytes (`format` says of what kind, else toml), or a mapping.

    Without a key a random one is sent, so that a request that travels twice makes one group.
    """
    here = working_folder()
    name, base = "job", here
    if isinstance(job, Mapping):
        content, kind = _json(job), "json"
    elif isinstance(job, bytes):
        content, kind = job, "toml"
    else:
        name = os.fspath(job)
        base = os.path.dirname(os.path.abspath(name))
        try:
            with open(name, "rb") as file:
                content = file.read()
        except OSError as error:
            raise UsageError(f"job file {name}: {error.strerror}") from None
        kind = _format_of(name, content)
        if format is None and kind == "toml" and not name.lower().endswith(".toml"):
            _check_is_job_file(name, content)
    request = SubmitRequest(
        content=content,
        format=format or kind,
        source_name=name,
        key=os.urandom(12).hex() if key is None else key,
        options=tuple(Option(name=k, value=_text(v, k)) for k, v in (options or {}).items()),
        submitted_in=here,
    )
    return PreparedSubmission(request, os.path.abspath(os.fspath(folder)) if folder is not None else base)


def advance(doing: Generator[MethodCall | FileUpload, Any, T], answer: Any) -> MethodCall | FileUpload | CallResult[T]:
    """The next step, or the value the generator ended with: a StopIteration cannot leave a thread."""
    try:
        return doing.send(answer)
    except StopIteration as end:
        return CallResult(end.value)


def _json(job: Mapping[str, Any]) -> bytes:
    try:
        # A number is spelt as Python spells it, since jobs get it so.
        return json.dumps(msgspec.to_builtins(job, str_keys=True), ensure_ascii=False, allow_nan=False).encode()
    except UnicodeEncodeError as error:
        odd = error.object[max(error.start - 20, 0) : error.end + 20]
        raise UsageError(f"job: {quoted(odd)}: not UTF-8; write it in UTF-8, or rename the file") from None
    except (TypeError, ValueError, msgspec.MsgspecError) as error:
        raise UsageError(f"job: {error}; a job given as a dict holds text, numbers, lists and dicts") from None


def _format_of(name: str, content: bytes) -> str:
    suffix = os.path.splitext(name)[1].lower()
    known = {".toml": "toml", ".yaml": "yaml", ".yml": "yaml", ".json": "json"}
    known |= dict.fromkeys((".sh", ".bash", ".slurm", ".sbatch"), "script")
    return known.get(suffix) or ("script" if begins_as_script(content) else "toml")


_SAYS_GROUP = re.compile(rb"""^(?:\xef\xbb\xbf)?[-{\[ \t]*["']?group["']?[ \t]*[\].:={]""", re.MULTILINE)
"""Line of a job file of any kind that hardly another file has."""
_MOST_PARSED = 1 << 20
"""Bytes of a file that is parsed here to see what it is."""


def _check_is_job_file(name: str, content: bytes) -> None:
    """UsageError for a file whose name does not say that it is TOML, and which is none: most likely a program."""
    if not name.endswith(".py") and _SAYS_GROUP.search(content):
        return
    # Few files have no suffix of a job file's.
    import shlex
    import tomllib

    from diana.bounds import deep_key

    try:
        if len(content) <= _MOST_PARSED and not deep_key(text := content.decode("utf-8-sig")):
            tomllib.loads(text)
            return
    except (ValueError, RecursionError):
        # A job file needs no such depth either.
        pass
    path, inside = shlex.quote(name), shlex.quote(os.path.basename(name))
    run = f"--input {path} -- {'python3' if name.endswith('.py') else 'PROGRAM'} {inside}"
    if content.startswith(b"\x7fELF"):
        run = f"-- {path if '/' in name else f'./{path}'}"
    raise UsageError(f"{name}: no job file and no script (#!); to run it, write: diana submit {run}")


def begins_as_script(content: bytes) -> bool:
    """True if the first line that says something names an interpreter; a byte order mark before it says nothing."""
    return content.removeprefix(b"\xef\xbb\xbf").lstrip(b" \t\r\n").startswith(b"#!")


def _text(value: object, option: str) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        # Expressions hold commas, and so may names of files: these stand on a line each.
        return ("\n" if option in _LINES else ",").join(map(str, value))
    return str(value)


def submit(
    prepared: PreparedSubmission, sign: Callable[[ToSign], Permit] | None = None
) -> Generator[MethodCall | FileUpload, Any, SubmitResponse]:
    if not prepared.request.key:
        # Most likely a variable of a shell that holds nothing: without its key a repetition would make a second group.
        raise UsageError("key: empty; give a text of your own, or leave the key out")
    if sign is None:
        response: SubmitResponse = yield from _with_files("Submit", prepared)
        return response
    asking = msgspec.structs.replace(prepared.request, signs=True)
    response = yield from _with_files("Submit", PreparedSubmission(asking, prepared.folder), sign)
    return response


def planned(prepared: PreparedSubmission) -> Generator[MethodCall | FileUpload, Any, PlanResponse]:
    """The whole answer; an only group stands in `decision`. Unplaceable has it as `planned`."""
    asking = PreparedSubmission(msgspec.structs.replace(prepared.request, tells_refused=True), prepared.folder)
    response: PlanResponse = yield from _with_files("Plan", asking)
    if not response.groups and response.decision is None:
        raise DianaError("the node answered a plan without a decision")
    told = ((f"group {one.name}: " if one.name else "", one.decision) for one in response.groups)
    decisions = [("", response.decision), *told]
    if why := next((whose + one.refused for whose, one in decisions if one is not None and one.refused), ""):
        error = Unplaceable(why)
        error.planned = response
        raise error
    return response


def plans(prepared: PreparedSubmission) -> Generator[MethodCall | FileUpload, Any, tuple[PlannedGroup, ...]]:
    """Each group of the file, as written; the name of an only one is left out."""
    response = yield from planned(prepared)
    return response.groups or (PlannedGroup(decision=response.decision),)


def plan(prepared: PreparedSubmission) -> Generator[MethodCall | FileUpload, Any, Decision]:
    planned = yield from plans(prepared)
    if len(planned) > 1 or planned[0].decision is None:
        raise UsageError(f"{prepared.request.source_name}: holds {len(planned)} groups; plans() plans each of them")
    return planned[0].decision


def _with_files(
    method: str, prepared: PreparedSubmission, sign: Callable[[ToSign], Permit] | None = None
) -> Generator[MethodCall | FileUpload, Any, Any]:
    """Send; upload what the node asks for, sign what it asks to have signed; send again."""
    request, sent = prepared.request, dict[str, UploadedFile]()
    for _ in range(MOST_ROUNDS):
        response = yield MethodCall(method, request)
        wanted = [path for path in dict.fromkeys(response.needs_files) if path not in sent]
        if sign is not None and isinstance(response, SubmitResponse) and response.to_sign and not request.permits:
            request = msgspec.structs.replace(request, permits=tuple(map(sign, response.to_sign)))
            continue
        if not response.needs_files:
            return response
        if not wanted:
            break
        for path in wanted:
            local = os.path.join(prepared.folder, path)
            sent[path] = described(local, path, request.source_name)
            yield FileUpload(local, sent[path].sha256)
        request = msgspec.structs.replace(request, files=tuple(sent.values()))
    raise DianaError(f"{request.source_name}: the node asks again and again for files it was sent")


def described(local: str, path: str, asked_by: str) -> UploadedFile:
    """Hash a local file the job `asked_by` names. UsageError when it cannot be read or is no regular file."""
    import hashlib
    import stat

    try:
        with open(local, "rb", opener=_nonblocking) as file:
            info = os.fstat(file.fileno())
            if not stat.S_ISREG(info.st_mode):
                raise UsageError(f"{asked_by}: file {path}: is no regular file; name a file")
            sha256 = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        looked = f" (looked for {local})" if local != path else ""
        mend = {PermissionError: "make it readable for this account", IsADirectoryError: "name the files in it"}
        how = mend.get(type(error), "mend its name, or make it")
        raise UsageError(f"{asked_by}: file {path}: {error.strerror}{looked}; {how}") from None
    executable = bool(info.st_mode & stat.S_IXUSR)
    return UploadedFile(path=path, sha256=sha256, size_bytes=info.st_size, executable=executable)


def _nonblocking(path: str, flags: int) -> int:
    """A FIFO in a file's place must not hang the submission."""
    return os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC)


def group_names(groups: Iterable[str]) -> list[str]:
    """A lone text is one group, not a list of letters."""
    return [groups] if isinstance(groups, str) else list(dict.fromkeys(groups))


class Completion:
    """The groups `as_completed` still waits for, looked at together: one call, however many they are."""

    def __init__(self, groups: Iterable[str]) -> None:
        self._left = group_names(groups)
        self.pause_s = LOOK_FIRST_S

    def __bool__(self) -> bool:
        return bool(self._left)

    def request(self) -> StatusRequest:
        return StatusRequest(groups=tuple(self._left))

    def take(self, response: StatusResponse) -> list[Any]:
        """Take the groups that have become final; sets the pause before the next look."""
        final = [status for status in response.groups if status.final]
        gone = {status.group for status in final}
        self._left = [group for group in self._left if group not in gone]
        self.pause_s = LOOK_FIRST_S if final else min(self.pause_s * 1.5, LOOK_MOST_S)
        return final

    def names(self) -> str:
        more = "" if len(self._left) <= 3 else f" and {len(self._left) - 3} more"
        return ", ".join(self._left[:3]) + more
