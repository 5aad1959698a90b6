"""Refs: the names of data that come from users and peers, checked."""

from __future__ import annotations

import re
from typing import NamedTuple

from diana.adapters.file_names import BadName, parts_of
from diana.model.ids import GroupId, SubgroupId, is_group_id
from diana.model.kept_log import MOST_SHOWN_BYTES

_DATASET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,119}\Z")
_SHA256 = re.compile(r"[0-9a-f]{64}\Z")
_VERSION = re.compile(r"[1-9][0-9]{0,8}\Z")
_TOKEN = re.compile(r"[A-Za-z0-9_-]{1,4000}\Z")
_NUMBER = re.compile(r"(?:0|[1-9][0-9]{0,17})\Z")


class DatasetRef(NamedTuple):
    """`dataset:NAME/FILE`, or `dataset:NAME@VERSION/FILE`."""

    dataset: str
    file: str
    version: int = 0
    """0: the newest."""


class WholeRef(NamedTuple):
    """`dataset:NAME` or `dataset:NAME@VERSION`: all its files."""

    dataset: str
    version: int = 0


class ManifestRef(NamedTuple):
    """`manifest:DIGEST`: the list of a dataset's files, whose SHA-256 is the digest."""

    digest: str


class BlobRef(NamedTuple):
    """`blob:SHA256`."""

    sha256: str


class OutputRef(NamedTuple):
    """`output:SUBGROUP/EPOCH/NAME`; `eEPOCH` is understood too."""

    subgroup: SubgroupId
    epoch: int
    name: str


class LogRef(NamedTuple):
    """`log:SEGMENT`, the segment relative to the logs' root; its first component is the group."""

    group: GroupId
    segment: str


class LiveRef(NamedTuple):
    """`live:SUBGROUP/EPOCH/INDEX/START/MOST`: at most MOST bytes of the log of a job that has not ended, from its byte
    START on; `-START`: so many before its end. Its content is a `LiveLog`."""

    subgroup: SubgroupId
    epoch: int
    job: int
    start: int
    most: int


class PastRef(NamedTuple):
    """`past:TOKEN`: the history of a site, for whom the token speaks (`model/trust/past_claim.py`). Its content is a
    row of frames."""

    token: str


class GatheredRef(NamedTuple):
    """`gathered:GROUP/NAME`: a file in the group's own folder of gathered outputs; `gathered:GROUP`: the names of all
    files there, one a line. For the other machine of the site alone."""

    group: GroupId
    name: str = ""


FileRef = DatasetRef | WholeRef | ManifestRef | BlobRef | OutputRef | LogRef | LiveRef | GatheredRef
Ref = FileRef | PastRef


def dataset_name(text: str) -> str:
    """Check the name of a dataset; BadName says what one looks like."""
    if not _DATASET.match(text):
        raise BadName(
            f"dataset name {text[:120]!a}: want 1 to 120 letters, digits, '.', '_', '+', '-',"
            " the first a letter or digit"
        )
    return text


def dataset_version(text: str) -> tuple[str, int]:
    """`NAME` or `NAME@VERSION` -> (NAME, VERSION, 0 for the newest)."""
    name, mark, version = text.partition("@")
    if mark and (not _VERSION.match(version)):
        example = ascii(f"{name[:120]}@2")
        raise BadName(f"dataset {text[:120]!a}: want a version from 1 after the @, such as {example}")
    return dataset_name(name), int(version) if mark else 0


def is_sha256(text: str) -> bool:
    return _SHA256.match(text) is not None


def sha256_hex(text: str) -> str:
    if not is_sha256(text):
        raise BadName(f"SHA-256 {text[:120]!a}: want 64 lower-case hex digits")
    return text


def parse_ref(text: str) -> Ref:
    """A reference as it stands in orders and on the wire; BadName for anything else."""
    scheme, _, rest = text.partition(":")
    if scheme == "dataset":
        whole, slash, file = rest.partition("/")
        name, version = dataset_version(whole)
        return DatasetRef(name, "/".join(parts_of(file)), version) if slash else WholeRef(name, version)
    if scheme == "manifest":
        return ManifestRef(sha256_hex(rest))
    if scheme == "blob":
        return BlobRef(sha256_hex(rest))
    if scheme == "output":
        return _output_ref(rest)
    if scheme == "log":
        group = parts_of(rest)[0]
        if not is_group_id(group) or group == rest:
            raise BadName(f"log segment {rest[:120]!a}: want GROUP/SEGMENT")
        return LogRef(GroupId(group), rest)
    if scheme == "live":
        return _live_ref(rest)
    if scheme == "past":
        if not _TOKEN.match(rest):
            raise BadName(f"history {rest[:120]!a}: want past:TOKEN")
        return PastRef(rest)
    if scheme == "gathered":
        group, slash, name = rest.partition("/")
        if not is_group_id(group):
            raise BadName(f"gathered output {rest[:120]!a}: want GROUP/NAME")
        return GatheredRef(GroupId(group), "/".join(parts_of(name)) if slash else "")
    raise BadName(f"reference {text[:120]!a}: want dataset:NAME/FILE, blob:SHA256, output:, log: or live:")


def _output_ref(rest: str) -> OutputRef:
    fields = rest.split("/", 3)
    if len(fields) == 4:
        group, number, epoch, name = fields
        epoch = epoch.removeprefix("e")
    if len(fields) != 4 or not is_group_id(group) or not _NUMBER.match(number) or not _NUMBER.match(epoch):
        raise BadName(f"output {rest[:120]!a}: want GROUP/NUMBER/EPOCH/NAME")
    return OutputRef(SubgroupId(f"{group}/{number}"), int(epoch), "/".join(parts_of(name)))


def _live_ref(rest: str) -> LiveRef:
    fields = rest.split("/")
    numbers = [field.removeprefix("-") if at == 4 else field for at, field in enumerate(fields)][1:]
    if len(fields) != 6 or not is_group_id(fields[0]) or not all(_NUMBER.match(number) for number in numbers):
        raise BadName(f"running job {rest[:120]!a}: want GROUP/NUMBER/EPOCH/INDEX/START/MOST")
    group, number, epoch, index, start, most = fields
    return LiveRef(
        SubgroupId(f"{group}/{number}"), int(epoch), int(index), int(start), min(int(most), MOST_SHOWN_BYTES)
    )


def live_ref(subgroup: SubgroupId, epoch: int, index: int, start: int, most: int) -> str:
    return f"live:{subgroup}/{epoch}/{index}/{start}/{most}"


def output_ref(subgroup: SubgroupId, epoch: int, name: str) -> str:
    return f"output:{subgroup}/{epoch}/{name}"
