"""What a site tells of its datasets (SPEC D12, J4): versions, removal, and names that are nearly right."""

from __future__ import annotations

import msgspec

from diana.engine import effects as fx
from diana.engine import events as ev
from diana.model.views import Ok
from tests.engine.bench import ALICE, Grid
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
