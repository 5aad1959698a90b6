"""Resources and inputs of components of their own, beside those of their group (SPEC K1, K3)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import pytest

from diana.errors import UsageError
from diana.jobfile.parse import parse_file
from diana.jobfile.parsed import ParsedJob
from diana.model.indexset import IndexSet
from diana.model.job import gang
from tests.jobfile.builders import Blobs, only_group, parse

COMMAND = '[group]\ncommand = "solve"\n'


def refused(text: str, files: dict[str, bytes] | None = None) -> str:
    with pytest.raises(UsageError) as caught:
        divided(text, files)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def divided(text: str, files: dict[str, bytes] | None = None, blobs: Blobs | None = None) -> ParsedJob:
    """Parse a file whose uploads are cut by bytes; where they are too short, as a node says it."""
    kept = blobs or Blobs()
    sent = {path: kept.uploaded(path, data) for path, data in (files or {}).items()}

    def cut(sha256: str, chunks: int, by_lines: bool) -> Sequence[tuple[str, int]]:
        content = kept.kept[sha256]
        pieces = content.splitlines(keepends=True) if by_lines else [content[at : at + 1] for at in range(len(content))]
        if len(pieces) < chunks:
            raise ValueError("has too little")
        bounds = [at * len(pieces) // chunks for at in range(chunks + 1)]
        some = [b"".join(pieces[a:b]) for a, b in pairwise(bounds)]
        return [(kept.put(each), len(each)) for each in some]

    return only_group(parse_file(text.encode(), "toml", "job", {}, sent, kept.put, kept.kept.__getitem__, cut=cut))


def test_a_component_asks_for_its_own_and_for_all_else_as_its_group_says() -> None:
    text = (
        COMMAND
        + '[resources]\nmemory = "1G"\nscratch = "2G"\nfpga = 1\nlicences = { matlab = 1 }\n'
        + '[[components]]\ncount = 2\n[[components]]\nmemory = "64G"\nfpga = 3\nqpu = 1\nlicences = { ansys = 2 }\n'
    )
    spec = parse(text).spec
    plain, wide = (spec.of_component(each) for each in spec.components)
    assert (plain.memory_bytes >> 30, wide.memory_bytes >> 30) == (1, 64)
    assert plain.scratch_bytes == wide.scratch_bytes == 2 << 30
    assert plain.others == (("fpga", 1),) and wide.others == (("fpga", 3), ("qpu", 1))
    assert plain.licences == (("matlab", 1),) and wide.licences == (("ansys", 2), ("matlab", 1))
    assert spec.component_kinds() == (plain, wide) and not parse(COMMAND + "[[components]]\n").spec.component_kinds()
    assert gang.of_part(spec, IndexSet.of([2])).resources == wide
    least = spec.least_of_site()
    assert least.memory_bytes == 1 << 30 and least.others == (("fpga", 1),) and least.licences == (("matlab", 1),)


def test_more_memory_for_a_retry_lowers_no_component_that_has_more() -> None:
    spec = parse(COMMAND + '[resources]\nmemory = "1G"\n[[components]]\n[[components]]\nmemory = "64G"\n').spec
    more = spec.with_memory(2 << 30)
    assert [more.of_component(each).memory_bytes >> 30 for each in more.components] == [2, 64]
    assert spec.with_memory(0) is spec


def test_a_file_that_a_component_reads_is_read_by_it_alone_in_each_gang() -> None:
    text = (
        COMMAND
        + "[sweep]\nx = [1, 2]\n"
        + '[[inputs]]\nurl = "dataset:mesh"\n'
        + '[[components]]\ninputs = ["dataset:ocean", { url = "dataset:part/{component}", path = "part" }]\n'
        + '[[components]]\ncount = 2\ninputs = ["local.dat"]\n'
    )
    assert parse(text).needs_files == ("local.dat",)
    parsed = parse(text, files={"local.dat": b"abc"})
    readers = dict(parsed.refs)
    blob = next(ref for ref in readers if ref.startswith("blob:"))
    assert {ref: str(some) for ref, some in readers.items()} == {
        "dataset:mesh": "0-5",
        "dataset:ocean": "0,3",
        "dataset:part/0": "0,3",
        blob: "1-2,4-5",
    }
    spec = parsed.spec
    paths = [[file.path for file in gang.of_part(spec, IndexSet.of([index])).inputs] for index in (0, 5)]
    assert paths == [["mesh", "ocean", "part"], ["mesh", "local.dat"]]
    assert spec.needs_directory() and {file.path for file in spec.every_input()} == {
        "mesh",
        "ocean",
        "part",
        "local.dat",
    }


def test_chunk_c_of_a_divided_file_goes_to_component_c() -> None:
    blobs = Blobs()
    text = (
        'components = "2x1+1x4"\n'
        + COMMAND
        + '[[inputs]]\nurl = "all.dat"\nsplit = true\n[[inputs]]\nurl = "dataset:m"\n'
    )
    parsed = divided(text, {"all.dat": b"abcdefg"}, blobs)
    assert [file.path for file in parsed.spec.inputs] == ["m"]
    chunks = [each.inputs[0] for each in parsed.spec.components]
    assert [blobs.kept[file.source.removeprefix("blob:")] for file in chunks] == [b"ab", b"cd", b"efg"]
    assert [(file.path, file.size_bytes) for file in chunks] == [("all.dat", 2), ("all.dat", 2), ("all.dat", 3)]
    assert [each.processors for each in parsed.spec.components] == [1, 1, 4] and parsed.spec.gang_size == 3
    readers = dict(parsed.refs)
    assert [str(readers[file.source]) for file in chunks] == ["0", "1", "2"] and str(readers["dataset:m"]) == "0-2"


def test_a_components_own_file_is_divided_among_those_of_its_table() -> None:
    blobs = Blobs()
    table = '[[components]]\n[[components]]\ncount = 2\n[[components.inputs]]\nurl = "all.csv"\nsplit = "lines"\n'
    spec = divided(COMMAND + table, {"all.csv": b"1\n22\n333\n"}, blobs).spec
    own = [[blobs.kept[file.source.removeprefix("blob:")] for file in each.inputs] for each in spec.components]
    assert own == [[], [b"1\n"], [b"22\n333\n"]] and [each.count for each in spec.components] == [1, 1, 1]


SPLIT = '[[inputs]]\nurl = "a"\nsplit = true\n'


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[[components]]\nmemory = -1\n", "job: components[0].memory: "),
        ("[[components]]\nmemory = 'much'\n", "job: components[0].memory: "),
        (
            "[[components]]\nlicences = { matlab = 0 }\n",
            "components[0].licences.matlab: 0 is too small; want at least 1",
        ),
        ("[[components]]\nfpga = -1\n", "components[0].fpga: -1 is out of range; want 0 to 1000000"),
        ("[[components]]\nfpga = 0.5\n", "components[0].fpga: want a whole number, got the number 0.5"),
        ("[[components]]\nfpga = 'two'\n", "components[0].fpga: "),
        ("[[components]]\ncuont = 2\n", "components[0].cuont: unknown key; did you mean 'count'?"),
        ("[[components]]\nmemroy = 2\n", "components[0].memroy: "),
        ("[[components]]\nprocessors = 2\n", "components[0].processors: unknown key; did you mean 'cpus'?"),
        ("[[components]]\ninputs = ['dataset:x', 'dataset:y/x']\n", "components[0].inputs[1].path: 'x' is that of"),
        (
            "[[components]]\ninputs = ['dataset:a']\n[[inputs]]\nurl = 'dataset:a'\n",
            "components[0].inputs[0].path: 'a' is that of inputs[0] too; give it another path",
        ),
        ("[[components]]\ninputs = [{ url = 'nowhere:x' }]\n", "components[0].inputs[0].url: "),
        (SPLIT, "inputs[0].split: there are no components to divide it among; name them, or leave it out"),
        ("flexible = 4\n" + SPLIT, "inputs[0].split: there are no components to divide it among"),
        (
            '[[components]]\n[[inputs]]\nurl = "dataset:a"\nsplit = true\n',
            "inputs[0].split: only an uploaded file is divided; register the chunks",
        ),
        ("[[components]]\ncount = 4\n" + SPLIT, "inputs[0].split: a: has too little"),
        ("[[components]]\ncount = 257\n" + SPLIT, "inputs[0].split: 257 components; a file is divided among 256"),
        (
            '[[components]]\n[[inputs]]\nurl = "a"\nsplit = "words"\n',
            "want true or false or 'lines', got the text 'words'",
        ),
        (
            '[[components]]\n[[inputs]]\nurl = "a"\nsplit = "line"\n',
            "inputs[0].split: want true or false or 'lines', got the text 'line'; did you mean 'lines'?",
        ),
        (
            '[[components]]\n[[inputs]]\nurl = "a"\npath = "{component}"\nsplit = true\n',
            "inputs[0].path: a divided input",
        ),
        ("[[components]]\n[gang]\nspares = 1\n" + SPLIT, "gang.spares: a spare takes any component's place; let all"),
        (
            "[[components]]\nmemory = '1G'\n[[components]]\n[gang]\nspares = 1\n",
            "gang.spares: a spare takes any component's place; give all the same",
        ),
        ("cwd = '/data'\n[[components]]\ninputs = ['dataset:a']\n", "components.inputs: does not go with group.cwd"),
    ],
)
def test_what_cannot_be_is_told_by_its_key(text: str, told: str) -> None:
    top, _, rest = text.partition("\n") if text.startswith("flexible") else ("", "", text)
    assert told in refused(f"{top}\n{COMMAND}{rest}", {"a": b"abc"})
