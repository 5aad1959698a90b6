"""Inputs that are divided among the components of a job: chunk c of k goes to component c (SPEC K3)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import structs

from diana.jobfile.gang import own_inputs
from diana.jobfile.raw import RawInput, RawJob, raw_input
from diana.model.job.spec import ComponentSpec, GroupSpec, InputFile

MOST_CHUNKS = 256
"""Components that a file is divided among: each is a part of its own, and its offer carries the spec with the chunks of
all, so that messages grow with their square."""

Cut = Callable[[str, int, bool], Sequence[tuple[str, int]]]
"""Cuts the content of this hash into so many chunks, by bytes or (True) by lines, keeps each, and returns their hashes
and sizes. ValueError: it has fewer bytes or lines than that."""


def no_cut(sha256: str, chunks: int, by_lines: bool) -> Sequence[tuple[str, int]]:
    """Cut nothing, where no content is at hand."""
    raise ValueError("files are not divided here")


def check_split(item: RawInput, key: str, *, local: bool, varies: bool, components: bool) -> None:
    """Refuse what cannot be divided. `local`: the input is an uploaded file; `varies`: its path differs from job to
    job; `components`: the job has some. ValueError names the key."""
    if not item.split:
        return
    if not components:
        raise ValueError(f"{key}.split: there are no components to divide it among; name them, or leave it out")
    if not local:
        raise ValueError(
            f"{key}.split: only an uploaded file is divided; register the chunks as files of a dataset and write"
            " dataset:NAME/chunk-{component}"
        )
    if varies:
        raise ValueError(f"{key}.path: a divided input has one name; write it without placeholders")


def with_chunks(spec: GroupSpec, raw: RawJob, cut: Cut) -> GroupSpec:
    """Give each component its own chunk in the place of each input that is divided. An input of the group is divided
    among all components, one of a component among those of its table. ValueError names the key."""
    components = list(spec.components)
    for at, (key, inputs) in reversed(list(enumerate(own_inputs(raw)))):
        own = components[at]
        if divided := _divided(inputs, own.inputs):
            rest = structs.replace(own, inputs=_rest(own.inputs, divided))
            components[at : at + 1] = _with_chunks([rest], divided, key, cut)
    divided = _divided(raw.inputs, spec.inputs)
    if divided:
        components = _with_chunks(components, divided, "inputs", cut)
    return structs.replace(spec, inputs=_rest(spec.inputs, divided), components=tuple(components))


_Divided = dict[int, tuple[InputFile, bool]]
"""Place in the list -> (an input that is divided, True by lines)."""


def _divided(written: Sequence[str | RawInput], inputs: Sequence[InputFile]) -> _Divided:
    items = enumerate(map(raw_input, written))
    return {at: (inputs[at], item.split == "lines") for at, item in items if item.split}


def _rest(inputs: Sequence[InputFile], divided: _Divided) -> tuple[InputFile, ...]:
    return tuple(file for at, file in enumerate(inputs) if at not in divided)


def _with_chunks(alike: Sequence[ComponentSpec], divided: _Divided, key: str, cut: Cut) -> list[ComponentSpec]:
    """Return these components one by one, each with its chunks."""
    out = [structs.replace(each, count=1) for each in alike for _ in range(each.count)]
    for at, (file, by_lines) in divided.items():
        if len(out) > MOST_CHUNKS:
            raise ValueError(
                f"{key}[{at}].split: {len(out):,} components; a file is divided among {MOST_CHUNKS} at most"
            )
        try:
            chunks = cut(file.source.removeprefix("blob:"), len(out), by_lines)
        except ValueError as error:
            raise ValueError(f"{key}[{at}].split: {file.path}: {error}") from None
        mine = [structs.replace(file, source=f"blob:{sha256}", size_bytes=size) for sha256, size in chunks]
        out = [structs.replace(each, inputs=(*each.inputs, one)) for each, one in zip(out, mine, strict=True)]
    return out
