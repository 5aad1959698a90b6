"""Where outputs may be gathered is asked before anything runs (SPEC J5)."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from diana.errors import UsageError
from diana.model.job.spec import GroupSpec, Outputs
from diana.model.layout import DataDir
from diana.node.api.submit import check_output_folder


def asked(data: Path, to: str) -> None:
    desk: Any = SimpleNamespace(data=DataDir(data), stager=SimpleNamespace(check_url=lambda url: None))
    check_output_folder(desk, GroupSpec(outputs=Outputs(collect=("{index}",), to=to)))


@pytest.mark.parametrize("scheme", ["", "file://"])
def test_a_folder_that_cannot_be_made_or_lies_in_the_data_directory_is_refused_as_path_and_as_url(
    tmp_path: Path, scheme: str
) -> None:
    (tmp_path / "file").write_text("")
    for folder, line in (
        ("file/below", "is no folder; choose another"),
        ("data/in", "lies in the node's data directory"),
    ):
        with pytest.raises(UsageError, match=line):
            asked(tmp_path / "data", f"{scheme}{tmp_path}/{folder}")
    asked(tmp_path / "data", f"{scheme}{tmp_path}/new/folder")
    assert not (tmp_path / "new").exists()
