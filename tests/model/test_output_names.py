"""Names of the files that jobs leave, and of those that they cannot have left."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from diana.engine.journal.events import Run
from diana.model.facts import Facts, Outcome, OutputFile
from diana.model.ids import GroupId, SiteId, SubgroupId
from diana.model.job import output_names
from diana.model.job.checkpoint import folder_of
from diana.model.job.output_names import OutputNames, may_begin_with_index, most_told, parts_below
from diana.model.job.patterns import pattern
from diana.model.job.spec import Axis, CheckpointSpec, GroupSpec, Outputs, Sweep, Table
from diana.model.job.sweep import Parameters
from diana.model.job.template import Template
from tests.engine.builders import facts_of

GROUP = GroupId("alpha-7")
AXES = (Axis(name="mass", values=("1.5", "a/b", ".x")), Axis(name="run", start=1, stop=4))
SWEEP = Sweep(axes=AXES)


def spec(*collect: str, sweep: Sweep = SWEEP, stdout: str = "", stderr: str = "", kept: bool = False) -> GroupSpec:
    outputs = Outputs(collect=collect, kept=kept)
    return GroupSpec(argv=("true",), sweep=sweep, outputs=outputs, stdout=stdout, stderr=stderr)


def told(*files: tuple[int, str], outcome: Outcome = Outcome.DONE, jobs: Iterable[int] = ()) -> Facts:
    """Facts of jobs (of all that are named) that ended so, with these files."""
    runs = [Run(SubgroupId("alpha-7/1"), 1, index, 1) for index in {**dict(files), **dict.fromkeys(jobs)}]
    facts = facts_of(SiteId("beta"), runs, outcome, 0.0)
    facts.outputs.extend(OutputFile(index, name, 1, "0" * 64) for index, name in files)
    return facts


def test_a_name_is_held_to_the_templates_of_its_job() -> None:
    names = OutputNames(spec("hist-{index}.npz", "log", "{mass}/{run}.txt", stdout="{group}.log"))
    honest = [(4, name) for name in ("hist-4.npz", "4/log", "a/b/2.txt", "4/alpha-7.log")]
    assert names.strange(GROUP, told(*honest)) == ""
    assert names.strange(GROUP, told(*honest[:3])) == "", "a job may have removed its own stdout"
    for lie in (".bashrc", "hist-5.npz", "log", "5/log", "a/b/3.txt", "a/b/2.txt/x", "4/alpha-8.log", "HIST-4.npz"):
        for before in range(5):
            assert names.strange(GROUP, told(*honest[:before], (4, lie))) == lie


def test_a_job_that_failed_leaves_its_own_output_and_one_of_which_files_were_lost_any_of_them() -> None:
    names = OutputNames(spec("a-{index}", "b-{index}", stdout="out-{index}", stderr="err-{index}"))
    for failed in (Outcome.FAILED, Outcome.CANCELLED, Outcome.TIMED_OUT):
        assert names.strange(GROUP, told((1, "out-1"), (1, "err-1"), outcome=failed)) == ""
        assert names.strange(GROUP, told((1, "err-1"), outcome=failed)) == ""
        assert names.strange(GROUP, told((1, "a-1"), outcome=failed)) == "a-1"
    for some in ("a-1",), ("b-1",), ("a-1", "out-1"), ("b-1", "err-1"):
        assert names.strange(GROUP, told(*((1, name) for name in some), outcome=Outcome.STAGING_FAILED)) == ""
    assert names.strange(GROUP, told((1, "c-1"), outcome=Outcome.STAGING_FAILED)) == "c-1"
    assert names.strange(GROUP, told((1, "b-1"))) == "b-1", "of a job that ran well no file is lacking"


def test_what_is_found_lies_in_the_jobs_folder_and_matches_what_its_group_named() -> None:
    names = OutputNames(spec("hist-{index}.npz", "{mass}-*.csv", "out/", "log", stdout="o", kept=True))
    honest = ["hist-4.npz", "4/a/b-1.csv", "4/a/b-2.csv", "4/out/.x", "4/out/y/z", "4/log", "4/o"]
    for outcome in (Outcome.DONE, Outcome.STAGING_FAILED, Outcome.FAILED, Outcome.TIMED_OUT, Outcome.CANCELLED):
        # A job that ran well has left what its group names plainly.
        whole = (honest, [honest[0], *honest[3:]], ["hist-4.npz", "4/log"])
        for some in whole if outcome is Outcome.DONE else (*whole, honest[1:], honest[::2], honest[3:]):
            assert names.strange(GROUP, told(*((4, name) for name in some), outcome=outcome)) == ""
    for lie in (
        *(
            "5/out/x",
            "out/x",
            "4/outer/x",
            "4/out/../x",
            "4/out/../../.bashrc",
            "4/out//x",
            "4/out/./x",
            "4/out/",
        ),
        *("4/a/b-.txt", "4/a/.b-1.csv", "4/x-1.csv", ".bashrc", "4/", "4/out/a\0b"),
    ):
        assert names.strange(GROUP, told((4, "hist-4.npz"), (4, lie))) == lie
    assert names.strange(GROUP, told((4, honest[0]), (4, "4/out/b"), (4, "4/out/a"))) == "4/out/a", "not in order"
    assert names.strange(GROUP, told((4, honest[0]), (4, "4/out/a"), (4, "4/out/a"))) == "4/out/a"
    for begun in (Outcome.NOT_STARTED, Outcome.MADE_WAY, Outcome.UNKNOWN):
        assert names.strange(GROUP, told((4, "4/out/a"), outcome=begun)) == "4/out/a"
        assert names.strange(GROUP, told((4, "4/o"), outcome=begun)) == ""


def test_a_plain_name_that_is_passed_over_is_told_in_another_place_or_its_job_did_not_run_well() -> None:
    names = OutputNames(spec("a", "b-{index}", "*.csv", "c", kept=True))
    whole = ["4/a", "b-4", "4/x.csv", "4/c"]
    assert names.strange(GROUP, told(*((4, name) for name in whole))) == ""
    assert names.strange(GROUP, told(*((4, name) for name in whole if name != "4/x.csv"))) == ""
    for lacking in ("4/a", "b-4"):
        some = [name for name in whole if name != lacking]
        after = whole[whole.index(lacking) + 1]
        assert names.strange(GROUP, told(*((4, name) for name in some))) == after
        for outcome in (Outcome.STAGING_FAILED, Outcome.FAILED, Outcome.TIMED_OUT, Outcome.CANCELLED):
            assert names.strange(GROUP, told(*((4, name) for name in some), outcome=outcome)) == ""
    overlapping = OutputNames(spec("out", "out/a", "b", kept=True))
    for honest in (["4/out/a", "4/b"], ["4/out/.x", "4/out/a", "4/b"], ["4/out/x", "4/out/a", "4/b"]):
        assert overlapping.strange(GROUP, told(*((4, name) for name in honest))) == ""
    assert overlapping.strange(GROUP, told((4, "4/b"))) == "4/b"
    with_own = OutputNames(spec("out", "b", stdout="out/log", kept=True))
    assert with_own.strange(GROUP, told((4, "4/b"))) == "", "it removed its own stdout, all that the folder held"


def test_a_name_may_turn_out_to_be_a_folder_and_of_an_older_group_it_may_not() -> None:
    inside = told((4, "out-4/a"), (4, "out-4/b/.c"), (4, "4/log"))
    assert OutputNames(spec("out-{index}", "log", kept=True)).strange(GROUP, inside) == ""
    assert OutputNames(spec("out-{index}", "log")).strange(GROUP, inside) == "out-4/a"
    assert OutputNames(spec("out-{index}", kept=True)).strange(GROUP, told((4, "out-4"), (4, "out-4/a"))) == "out-4/a"
    assert OutputNames(spec("o-{index}", kept=True)).strange(GROUP, told((4, "o-4/b"), (4, "o-4/a"))) == "o-4/a"
    for lie in ("out-4", "out-5/a", "out-4/../x", "out-4x/a"):
        lies = told((4, "out-4/a"), (4, lie))
        assert OutputNames(spec("out-{index}", "log", kept=True)).strange(GROUP, lies) == lie
    older = OutputNames(spec("*.csv"))
    assert older.strange(GROUP, told((4, "4/*.csv"))) == ""
    assert older.strange(GROUP, told((4, "4/a.csv"))) == "4/a.csv"


def test_values_in_a_pattern_are_no_wildcards_and_those_of_a_table_may_be_any() -> None:
    axis = Sweep(axes=(Axis(name="x", values=("*", "a[1]")),))
    names = OutputNames(spec("{x}-?", sweep=axis, kept=True))
    assert names.strange(GROUP, told((0, "0/*-1"), (1, "1/a[1]-2"))) == ""
    assert names.strange(GROUP, told((0, "0/b-1"))) == "0/b-1"
    assert names.strange(GROUP, told((1, "1/a1-2"))) == "1/a1-2"
    table = Table(blob="0" * 64, rows=5, columns=("who",), size_bytes=0)
    names = OutputNames(spec("{who}/*.csv", "d-{who}", sweep=Sweep(table=table), kept=True))
    assert names.strange(GROUP, told((3, "3/ann/b.csv"), (3, "d-ann/x"), (3, "d-ann/y"))) == ""
    names_of_set = OutputNames(spec("{who}-[]a].csv", sweep=Sweep(table=table), kept=True))
    assert names_of_set.strange(GROUP, told((3, "3/ann-].csv"))) == ""
    for lie in ("4/ann/b.csv", "3/ann/b.txt", "ann/b.csv", "3/../b.csv", "d-ann/../x"):
        assert names.strange(GROUP, told((3, lie))) == lie


@pytest.mark.parametrize(
    ("text", "found", "passed_over"),
    [
        ("**/*.csv", "a.csv x/a.csv x/y/a.csv", ".x/a.csv x/.a.csv x/.y/a.csv a.txt"),
        ("**/**/a", "a x/a x/y/a a/b", "b x/b"),
        ("x/**", "x/a x/y/a x/.a", "y/a"),
        (".*/a", ".x/a", "x/a a"),
        ("[]a]", "] a", "b"),
        ("[!]a]", "b", "] a"),
        ("out", "out out/a out/.b/c", "outer x/out"),
    ],
)
def test_a_pattern_finds_what_a_shell_would(text: str, found: str, passed_over: str) -> None:
    for path in f"{found} {passed_over}".split():
        assert pattern(text).matches(path.split("/")) == (path in found.split())


def test_no_job_is_believed_more_files_than_it_may_leave(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output_names, "MOST_FOUND", 20)
    names = OutputNames(spec("a-*", "b-*", "c", kept=True))
    many = [f"0/{letter}-{number:02}" for letter in "ab" for number in range(10)]
    assert names.strange(GROUP, told(*((0, name) for name in many), (0, "0/c"))) == ""
    assert names.strange(GROUP, told(*((0, name) for name in many), (0, "0/b-10"))) == "0/b-10"
    folder = [f"0/c/{number:02}" for number in range(21)]
    assert names.strange(GROUP, told(*((0, name) for name in folder))) == "0/c/20"
    monkeypatch.setattr(output_names, "MOST_NAME_BYTES", 100)
    assert names.strange(GROUP, told(*((0, name) for name in many))) == many[16]


def test_files_that_came_are_not_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output_names, "MOST_PASSED", 1)
    names = OutputNames(spec("a", "b", "c", "d", kept=True))
    assert names.strange(GROUP, told(*((0, f"0/{name}") for name in "abcd"))) == ""
    assert names.strange(GROUP, told((0, "0/a"), (0, "0/d"))) == "0/d"


def test_a_file_that_is_named_twice_is_left_once() -> None:
    params = {"index": "0", "group": GROUP}
    for names in OutputNames(spec("log", stdout="log")), OutputNames(spec(stdout="log", stderr="./log")):
        assert [left.name for left in names.of(params, 0)] == ["0/log"]


def test_a_checkpoint_is_all_of_its_files_and_nothing_else() -> None:
    saves = msgspec.structs.replace(spec("out", stdout="o"), checkpoint=CheckpointSpec(paths=("a-{run}", "b")))
    names = OutputNames(saves)
    folder = folder_of(4, 1)
    ends = Outcome.CHECKPOINTED
    assert names.strange(GROUP, told((4, f"{folder}/a-2"), (4, f"{folder}/b"), outcome=ends)) == ""
    assert names.strange(GROUP, told((4, f"{folder}/b"), outcome=ends)) == f"{folder}/b", "one is lacking"
    for lie in (f"{folder_of(4, 2)}/a-2", f"{folder_of(3, 1)}/a-2", f"{folder}/c", "4/out", "4/o"):
        assert names.strange(GROUP, told((4, lie), outcome=ends)) == lie


@pytest.mark.parametrize(
    ("text", "may"),
    [
        *(("log", True), ("out-{group}", True), ("{x}", True), ("4{x}/a", True), ("./{x}", True), ("{index}/a", True)),
        *(("out-{x}", False), ("out/{x}", False), ("4a{x}", False)),
    ],
)
def test_an_output_may_lie_in_a_folder_named_by_an_index(text: str, may: bool) -> None:
    assert may_begin_with_index(text) == may


def test_a_file_of_a_job_that_nothing_is_told_of_is_strange() -> None:
    names = OutputNames(spec("hist-{index}", stdout="out-{index}"))
    for name in ("hist-4", "out-4"):
        lie = told((3, "hist-3"))
        lie.outputs.append(OutputFile(4, name, 1, "0" * 64))
        assert names.strange(GROUP, lie) == name, "it may be the result of a job elsewhere"


def test_a_hidden_file_is_taken_where_the_group_asks_for_it() -> None:
    assert OutputNames(spec(".state-{index}")).strange(GROUP, told((0, ".state-0"))) == ""
    assert OutputNames(spec("{mass}-{run}")).strange(GROUP, told((6, ".x-1"))) == ""


def test_values_of_a_table_may_be_any_and_the_rest_of_the_name_may_not() -> None:
    table = Table(blob="0" * 64, rows=5, columns=("who", "where"), size_bytes=0)
    names = OutputNames(spec("out/{who}-{where}-{run}.txt", sweep=Sweep(axes=AXES[1:], table=table)))
    for honest in ("out/ann-x/y-2.txt", "out/--2.txt"):
        assert names.strange(GROUP, told((4, honest))) == ""
    for lie in ("out/ann-x-3.txt", "ann-x-2.txt", "out/ann.txt", ".bashrc"):
        assert names.strange(GROUP, told((4, lie))) == lie


def test_the_fixed_pieces_of_a_name_with_values_of_a_table_are_all_there() -> None:
    table = Table(blob="0" * 64, rows=5, columns=("a", "b", "c"), size_bytes=0)
    for text, honest, lie in (("ab{a}ba", "abba", "aba"), ("{a}-x-{b}-x-{c}", "1-x-2-x-3", "1-x-3")):
        names = OutputNames(spec(text, sweep=Sweep(table=table)))
        assert names.strange(GROUP, told((0, honest))) == ""
        assert names.strange(GROUP, told((0, lie))) == lie


def test_two_names_that_differ_by_columns_of_a_table_alone_are_two() -> None:
    table = Table(blob="0" * 64, rows=5, columns=("a", "b"), size_bytes=0)
    names = OutputNames(spec("{a}.txt", sweep=Sweep(table=table), stdout="{b}.txt"))
    assert names.strange(GROUP, told((0, "x.txt"), (0, "y.txt"))) == ""


def test_files_of_a_job_that_leaves_none_are_strange() -> None:
    assert OutputNames(spec()).strange(GROUP, told((0, "x"))) == "x"
    assert OutputNames(spec()).strange(GROUP, told(jobs=(0,))) == ""


@pytest.mark.parametrize("outcome", [Outcome.DONE, Outcome.FAILED, Outcome.STAGING_FAILED])
def test_a_message_of_lies_costs_by_the_files_that_it_names(outcome: Outcome, monkeypatch: pytest.MonkeyPatch) -> None:
    rendered = 0
    render = Template.render

    def counted(template: Template, params: Mapping[str, str]) -> str:
        nonlocal rendered
        rendered += 1
        return render(template, params)

    monkeypatch.setattr(Template, "render", counted)
    table = Table(blob="0" * 64, rows=1000, columns=("who",), size_bytes=0)
    many = [f"{{who}}-{number}-{{index}}" for number in range(2000)]
    names = OutputNames(spec(*many, sweep=Sweep(table=table), stdout="out-{index}", stderr="err-{index}"))
    first = "x-0-{}" if outcome is Outcome.DONE else "err-{}"
    monkeypatch.setattr(output_names, "MOST_PASSED", 1500)
    # Job by job, in turns: one file of each, and a lie at the end.
    files = [(job, first.format(job)) for _ in range(3) for job in range(500)]
    found = names.strange(GROUP, told(*files, (0, "lie"), outcome=outcome))
    assert found == ("err-0" if outcome is Outcome.STAGING_FAILED else "lie")
    assert rendered <= 3 * len(files)


@pytest.mark.parametrize("outcome", [Outcome.FAILED, Outcome.STAGING_FAILED])
def test_as_many_jobs_as_may_be_told_of_together_leave_the_last_of_their_outputs_and_are_believed(
    outcome: Outcome, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output_names, "MOST_PASSED", 5000)
    many = [f"{number}-{{index}}" for number in range(300)]
    given = spec(*many, sweep=Sweep(axes=(Axis(name="n", stop=1000),)), stdout="out-{index}", kept=True)
    jobs = range(most_told(given))
    assert len(jobs) > 10
    assert OutputNames(given).strange(GROUP, told(*((job, f"out-{job}") for job in jobs), outcome=outcome)) == ""


TEXT = st.text(st.sampled_from("ab./-{}"), max_size=6)
PIECES = st.lists(
    st.sampled_from(["{a}", "{b}", "{c}", "{index}", "{group}", "x", "/", "-", ".", "./"]), min_size=1, max_size=6
).map("".join)


@given(st.lists(PIECES, min_size=1, max_size=3), PIECES, st.booleans(), st.data())
def test_what_a_job_leaves_is_never_strange(collect: list[str], stdout: str, kept: bool, data: st.DataObject) -> None:
    rows = data.draw(st.lists(st.tuples(TEXT, TEXT), min_size=1, max_size=3))
    table = Table(blob="0" * 64, rows=len(rows), columns=("a", "b"), size_bytes=0)
    sweep = Sweep(axes=(Axis(name="c", values=("", "1", "y/z")),), table=table)
    names, values = OutputNames(spec(*collect, sweep=sweep, stdout=stdout, kept=kept)), Parameters(sweep, rows)
    for index in range(values.size):
        try:
            left = list(names.of({**values.of(index), "index": str(index), "group": GROUP}, index))
        except ValueError:
            continue
        left_names = [f"{one.name}{one.path}/x" if one.found else one.name for one in left]
        assert names.strange(GROUP, told(*((index, name) for name in left_names))) == ""
        own = [one for one in left if one.always]
        assert names.strange(GROUP, told(*((index, one.name) for one in own), outcome=Outcome.FAILED)) == ""


@pytest.mark.parametrize("text", ["", "/etc/passwd", "../x", "a/../../x", ".", "a\0b"])
def test_a_path_stays_below_its_folder(text: str) -> None:
    with pytest.raises(ValueError, match="does not stay below"):
        parts_below(text)
