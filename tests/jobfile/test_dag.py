"""Several groups in one job file: what waits for what, and what cannot be (SPEC J4, section 6)."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from diana.adapters.staging.refs import dataset_name
from diana.errors import UsageError
from diana.jobfile import ParsedFile, parse_file
from diana.jobfile.parsed import Waits
from diana.model.job.spec import encode_spec
from tests.jobfile.builders import Blobs, parse

ROOT = Path(__file__).parents[2]


def read(
    text: str, format: str = "toml", blobs: Blobs | None = None, files: dict[str, bytes] | None = None, **options: str
) -> ParsedFile:
    blobs = blobs or Blobs()
    sent = {path: blobs.uploaded(path, data) for path, data in (files or {}).items()}
    return parse_file(text.encode(), format, "job", options, sent, blobs.put, blobs.kept.__getitem__)


def group(name: str, rest: str = "") -> str:
    return f'[[group]]\nname = "{name}"\ncommand = "echo {name}"\n{rest}\n'


def makes(dataset: str) -> str:
    return f'[group.outputs]\ncollect = "{{index}}.out"\ndataset = "{dataset}"'


def test_a_file_of_one_group_reads_as_before() -> None:
    text = '[group]\ncommand = "echo {x}"\n[sweep]\nx = "1-5"\n'
    found = read(text)
    assert found.waits == (Waits(),)
    assert encode_spec(found.groups[0].spec) == encode_spec(parse(text).spec)


def test_each_of_several_groups_reads_as_a_file_of_its_own() -> None:
    body = 'command = "echo {x}"\n[group.sweep]\nx = "1-5"\n[group.resources]\nmemory = "2G"\n'
    found = read(f'[[group]]\nname = "a"\n{body}[[group]]\nname = "b"\n{body}')
    alone = parse('[group]\nname = "a"\ncommand = "echo {x}"\n[sweep]\nx = "1-5"\n[resources]\nmemory = "2G"\n')
    assert [g.jobs for g in found.groups] == [5, 5]
    assert found.groups[0].spec == alone.spec
    assert found.waits == (Waits(), Waits())


def test_yaml_and_json_hold_several_groups_too() -> None:
    yaml = "group:\n- {name: a, command: echo a}\n- {name: b, command: echo b, after: [a]}\n"
    assert read(yaml, "yaml").waits == (Waits(), Waits((0,)))
    json = '{"group": [{"name": "a", "command": "echo"}, {"name": "b", "command": "echo", "after": ["a"]}]}'
    assert read(json, "json").waits == (Waits(), Waits((0,)))


def test_a_group_waits_for_names_for_datasets_of_the_file_and_for_earlier_groups() -> None:
    text = (
        group("a", makes("one"))
        + group("b", makes("two"))
        + group("c", 'after = ["b", "alpha-12"]\ninputs = ["dataset:one/{index}.out", "dataset:old", "dataset:two"]')
    )
    assert read(text).waits == (Waits(), Waits(), Waits((1, 0), ("alpha-12",)))  # type: ignore[arg-type]


def test_the_order_written_does_not_matter() -> None:
    text = group("late", 'inputs = ["dataset:one"]') + group("early", makes("one"))
    assert read(text).waits == (Waits((1,)), Waits())


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (
            group("a", 'after = ["b"]') + group("b", 'after = ["a"]'),
            "job: groups wait for each other in a circle: a -> b -> a; take one of these steps out",
        ),
        (
            group("a", 'after = ["c"]\n' + makes("one"))
            + group("b", 'inputs = ["dataset:one"]')
            + group("c", 'after = ["b"]'),
            "job: groups wait for each other in a circle: a -> b -> c -> a; take one of these steps out",
        ),
        (
            group("a", 'inputs = ["dataset:one"]\n' + makes("one")) + group("b"),
            "job: groups wait for each other in a circle: a -> a; take one of these steps out",
        ),
        (
            group("fit", 'after = ["simulat"]') + group("simulate"),
            "job: group fit: group.after: no group 'simulat' in this file; did you mean 'simulate'?",
        ),
        (
            '[group]\ncommand = "echo"\nafter = ["b"]',
            "job: group.after: 'b' is no group's id; want SITE-NUMBER, such as alpha-12 (`diana status` lists yours)",
        ),
        (group("a") + group("a"), "job: group[1].name: 'a' is that of group[0] too; give it another"),
        (
            '[[group]]\ncommand = "echo"\n',
            "job: group[0].name: missing; each of several groups has a name of its own",
        ),
        (
            group("a", makes("one")) + group("b", makes("one")),
            "job: group b: outputs.dataset: group a makes 'one' too; use another name",
        ),
        (
            group("a") + '[resources]\nmemory = "1G"\n',
            "job: resources: the file holds several groups; write [group.resources] below the [[group]] it belongs to",
        ),
        (
            group("a") + group("b", '[group.resources]\nmemry = "1G"'),
            "job: group b: resources.memry: unknown key; did you mean 'memory'?",
        ),
        (
            group("a", '[group.outputs]\ndataset = "x"'),
            "job: outputs.dataset: there is nothing to register; name the jobs' files in outputs.collect",
        ),
        (
            group("a", makes("../x")),
            "job: outputs.dataset: '../x': want 1 to 120 letters, digits, '.', '_', '+', '-',"
            " the first a letter or digit",
        ),
        ("group = []\n", "job: group: 0 tables; want 1 to 1000 [[group]] tables in a file"),
        ("group = [1]\n", "job: group[0]: want a table of keys and values, got the number 1"),
    ],
)
def test_a_mistake_is_one_line_with_its_mend(text: str, line: str) -> None:
    with pytest.raises(UsageError) as caught:
        read(text)
    assert str(caught.value) == line


def test_options_hold_for_every_group_or_are_refused() -> None:
    text = group("a") + group("b", 'after = ["a"]')
    found = read(text, sites="alpha", memory="1G", after="alpha-3")
    assert [(g.spec.sites, g.spec.resources.memory_bytes) for g in found.groups] == [(("alpha",), 1 << 30)] * 2
    assert found.waits == (Waits((), ("alpha-3",)), Waits((0,), ("alpha-3",)))  # type: ignore[arg-type]
    for option in ("name", "collect", "array", "dataset"):
        with pytest.raises(UsageError, match=f"option {option}: the file holds several groups"):
            read(text, **{option: "x"})


def test_files_of_all_groups_are_asked_for_and_rows_kept_only_when_all_is_in_order() -> None:
    text = group("a", 'inputs = ["left"]') + group("b", 'inputs = ["right", "left"]')
    assert read(text).needs_files == ("left", "right")
    rows = "[group.sweep]\nrows = [{x = 1}, {x = 2}]"
    blobs = Blobs()
    with pytest.raises(UsageError, match="circle"):
        read(group("a", rows) + group("b", 'after = ["b"]'), blobs=blobs)
    assert not blobs.kept
    assert [g.jobs for g in read(group("a", rows) + group("b"), blobs=blobs).groups] == [2, 1]
    assert len(blobs.kept) == 1


@pytest.mark.parametrize("name", ["a", "A-1.x_+", "9" * 120])
def test_names_taken_here_are_names_the_catalogue_takes(name: str) -> None:
    assert read(group("a", makes(name))).groups[0].spec.outputs.dataset == dataset_name(name)


def test_the_stages_of_the_reference_and_the_examples_are_in_order() -> None:
    text = (ROOT / "docs" / "job-file.md").read_text(encoding="utf-8").partition("## Several groups")[2]
    stages = re.findall(r"```toml\n(.*?)```", text, flags=re.DOTALL)[0]
    assert read(stages).waits == (Waits(), Waits((0,)), Waits((1,)))
    example = (ROOT / "examples" / "stages.toml").read_text(encoding="utf-8")
    walk = (ROOT / "examples" / "walk.py").read_bytes()
    assert read(example, files={"walk.py": walk}).waits == (Waits(), Waits((0,)), Waits((1,)))
