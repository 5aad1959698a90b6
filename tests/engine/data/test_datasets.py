"""A site's word on its datasets (SPEC D12, J4): versions, removal, and names that are nearly right."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from diana.engine.data import datasets
from diana.engine.journal import effects as fx
from diana.engine.journal import events as ev
from diana.engine.messages import messages as ms
from diana.model.job.spec import Outputs
from diana.model.views.views import Ok
from tests.engine.bench import ALICE, Grid, Post, Site
from tests.engine.builders import OPERATOR, dataset, spec, whole


def test_a_new_version_takes_the_name_and_a_removed_dataset_is_told_no_more() -> None:
    alpha = Grid(alpha=1)["alpha"]
    first = dataset("d", "f")
    second = msgspec.structs.replace(dataset("d", "f", "g"), version=2)
    for number, made in enumerate((first, second, second)):
        alpha.handle(ev.AddDataset(request=number, principal=OPERATOR, dataset=made))
        assert alpha.replies[number] == Ok(made.files)
    assert alpha.engine.core.state.datasets == {"d": second}
    assert sum(type(record).__name__ == "DatasetAdded" for record in alpha.records()) == 2
    alpha.handle(ev.AddDataset(request=7, principal=OPERATOR, dataset=first))
    assert alpha.engine.core.state.datasets == {"d": first}, "the newest was removed"
    for number in (8, 9):
        alpha.handle(ev.RemoveDataset(request=number, principal=OPERATOR, name="d"))
    assert alpha.replies[8] == Ok(1) and alpha.replies[9] == Ok(0)
    assert alpha.engine.core.state.datasets == {}


def test_only_operators_remove_datasets() -> None:
    alpha = Grid(alpha=1)["alpha"]
    alpha.handle(ev.AddDataset(request=1, principal=OPERATOR, dataset=dataset("d", "f")))
    alpha.handle(ev.RemoveDataset(request=2, principal=ALICE, name="d"))
    refused = alpha.replies[2]
    assert isinstance(refused, fx.Refusal) and refused.code == "denied"
    assert "d" in alpha.engine.core.state.datasets


def test_an_unknown_dataset_is_answered_with_the_names_nearest_to_it() -> None:
    grid = Grid(alpha=2)
    grid["alpha"].handle(ev.AddDataset(request=1, principal=OPERATOR, dataset=dataset("collisions", "f")))
    refused = grid["alpha"].submit(spec(1), 1, 2, refs=(("dataset:colisions/f", whole(1)),))
    assert isinstance(refused, fx.Refusal) and "did you mean collisions?" in refused.text


def refused(grid: Grid, ref: str) -> str:
    answer = grid["alpha"].submit(spec(1), 1, 99, refs=((ref, whole(1)),))
    assert isinstance(answer, fx.Refusal)
    return answer.text


def test_a_file_that_a_registered_dataset_lacks_is_not_called_a_dataset_nobody_registered() -> None:
    grid = Grid(alpha=2, beta=2)
    registered(grid["alpha"], "gone")
    assert refused(grid, "dataset:gone/f9") == (
        "dataset gone: no file f9 in it, at alpha; see: diana datasets show gone --files"
    )
    assert refused(grid, "dataset:gone@4/f9") == (
        "dataset gone@4: no file f9 in it, or no version 4, at alpha; see: diana datasets show gone --files"
    )
    assert refused(grid, "dataset:gone@4") == (
        "dataset gone: no version 4 of it at alpha; see: diana datasets show gone"
    )


def test_a_lacking_file_is_told_with_the_peers_that_have_its_dataset_and_those_that_did_not_answer() -> None:
    grid = Grid(alpha=2, beta=2, gamma=2, delta=2)
    registered(grid["beta"], "gone", "other")
    registered(grid["gamma"], "gone")
    grid.pass_time(3.0)
    grid.part("delta")
    text = refused(grid, "dataset:gone/f9")
    assert text.startswith("dataset gone: no file f9 in it, at beta, gamma (no answer from delta); see:")
    refs = tuple((f"dataset:gone/f{n}", whole(1)) for n in range(6))
    answer = grid["alpha"].submit(spec(1), 1, 100, refs=refs)
    assert isinstance(answer, fx.Refusal) and "no file f0, f1, f2 and 3 more in it" in answer.text


def test_a_dataset_of_a_peer_that_does_not_answer_is_not_told_as_the_name_that_was_meant() -> None:
    grid = Grid(alpha=2, beta=2)
    registered(grid["beta"], "gone")
    grid.pass_time(3.0)
    grid.part("beta")
    text = refused(grid, "dataset:gone/f")
    assert text.startswith("dataset gone/f: not registered at alpha (no answer from beta); add it with:"), text


def test_a_dataset_of_a_peer_that_is_there_and_too_slow_to_answer_is_no_mistake_of_the_user() -> None:
    grid = Grid(alpha=2, beta=2)
    registered(grid["beta"], "big")
    grid.pass_time(3.0)

    def slow(grid: Grid, number: int, letter: Post) -> str:
        return "lose" if isinstance(letter[2], ms.Quote) else "deliver"

    grid.fate = slow
    grid["alpha"].submit(spec(1), 1, 100, refs=(("dataset:big/f", whole(1)),))
    grid.pass_time(60.0)
    answer = grid["alpha"].replies[100]
    assert isinstance(answer, fx.Refusal)
    assert (answer.code, answer.retry_after_s) == ("retry", 5.0)
    assert answer.text == "dataset big: held by beta, and no answer came from there in time; try again"


def registered(alpha: Site, *names: str) -> None:
    for number, name in enumerate(names):
        alpha.handle(ev.AddDataset(request=number, principal=OPERATOR, dataset=dataset(name, "f")))


def test_what_a_crash_left_between_catalogue_and_journal_is_made_up_for_at_start() -> None:
    """The catalogue is written first: it may have more, less, or a name with other content."""
    alpha = Grid(alpha=1)["alpha"]
    registered(alpha, "kept", "removed", "again", "older", "newer")
    version = {"older": 1, "newer": 3}
    there = {
        name: msgspec.structs.replace(dataset(name, "f"), version=version.get(name, 1)) for name in ("kept", "newer")
    }
    there["again"] = dataset("again", "other")
    there["older"] = msgspec.structs.replace(dataset("older", "other"), version=2)
    there["added"] = dataset("added", "f")
    alpha.restart()
    for event in datasets.missed(alpha.engine.core, there.values()):
        alpha.handle(event)
    assert alpha.engine.core.state.datasets == there
    assert not datasets.missed(alpha.engine.core, there.values()), "nothing is left to say"
    assert not alpha.warnings


@given(
    st.dictionaries(st.sampled_from("abcd"), st.integers(1, 3)),
    st.dictionaries(st.sampled_from("abcd"), st.integers(1, 3)),
)
def test_whatever_differs_ends_as_the_catalogue_has_it(told: dict[str, int], there: dict[str, int]) -> None:
    alpha = Grid(alpha=1)["alpha"]
    for number, (name, version) in enumerate(sorted(told.items())):
        made = msgspec.structs.replace(dataset(name, f"told-{version}"), version=version)
        alpha.handle(ev.AddDataset(request=number + 1, principal=OPERATOR, dataset=made))
    newest = [msgspec.structs.replace(dataset(name, "there"), version=version) for name, version in there.items()]
    for event in datasets.missed(alpha.engine.core, newest):
        alpha.handle(event)
        assert not isinstance(alpha.replies.pop(0, None), fx.Refusal)
    assert alpha.engine.core.state.datasets == {made.name: made for made in newest}


def test_what_a_group_is_about_to_register_is_left_to_the_group() -> None:
    """Else nobody would know whose dataset it is, and its owner could not make the next version."""
    alpha = Grid(alpha=1)["alpha"]
    alpha.register_at_once = False
    wanted = msgspec.structs.replace(spec(1), outputs=Outputs(collect=("x",), dataset="made"))
    alpha.outputs = ("x",)
    alpha.submit(wanted, 1)
    alpha.end()
    alpha.grid.settle()
    alpha.restart()
    assert datasets.missed(alpha.engine.core, [dataset("made", "0.x")]) == []
    alpha.register(alpha.registrations.pop(0))
    assert alpha.engine.core.state.produced == {"made": ALICE.name}
