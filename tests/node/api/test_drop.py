"""Groups whose outputs are at the node, which are not dropped unasked."""

from __future__ import annotations

from pathlib import Path

import pytest

from diana.adapters.file_names import PART_PREFIX
from diana.engine.journal.columns import empty
from diana.model.facts import Facts, FactsKey, OutputFile
from diana.model.ids import GroupId, SiteId, SubgroupId
from diana.model.layout import DataDir
from diana.node.api.control import with_outputs

GROUPS = tuple(GroupId(f"alpha-{number}") for number in range(3))


@pytest.mark.parametrize("name", ["0/o", ".o", "0/.hidden/o"])
def test_a_group_has_outputs_whatever_their_names_and_what_is_not_whole_is_none(tmp_path: Path, name: str) -> None:
    data = DataDir(tmp_path)
    for group, file in ((GROUPS[0], name), (GROUPS[1], f"0/{PART_PREFIX}x")):
        path = data.gathered(group) / file
        path.parent.mkdir(parents=True)
        path.write_text("x")
    assert with_outputs(data, GROUPS, None) == {GROUPS[0]}


def test_a_group_has_outputs_that_the_other_machine_of_a_pair_gathered(tmp_path: Path) -> None:
    site, key = SiteId("alpha"), FactsKey(GROUPS[1], SubgroupId("alpha-1/0"), 1, 0)
    made = OutputFile(index=0, name="o", size_bytes=1, sha256="0" * 64)

    def told(group: GroupId) -> list[tuple[FactsKey, Facts]]:
        facts = empty(site)
        facts.outputs.extend([made] if group == GROUPS[1] else [])
        return [(key, empty(site)), (key, facts)]

    assert with_outputs(DataDir(tmp_path), GROUPS, told) == {GROUPS[1]}
    assert with_outputs(DataDir(tmp_path), GROUPS, None) == frozenset()
