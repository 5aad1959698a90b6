"""Outputs on their way to a URL: gathered in the group's own folder at its origin first, then sent on from there.

So `diana fetch` and the merge command find them as ever, and an upload that breaks is told again without moving
anything between sites twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from diana.adapters.file_names import parts_of
from diana.adapters.staging.urls.stores import StoreUpload
from diana.adapters.staging.urls.urls import Urls
from diana.engine.journal.effects import Gather
from diana.errors import UsageError
from diana.model.facts import Facts, OutputFile
from diana.model.job.urls import check_folder_url


async def upload(urls: Urls, order: Gather, facts: Facts, root: Path) -> int:
    """Every output of the batch, which lies below `root`, as `order.to/NAME`; gives the bytes that travelled. The same
    again changes nothing. DianaError names file and site."""
    base = _base(order.to)
    outputs = [output for output in facts.outputs if output.index not in order.skip]
    return await urls.write(base, [(o.name, _upload(root, o)) for o in _last(outputs)])


def _base(text: str) -> str:
    try:
        return check_folder_url(text).text
    except ValueError as fault:
        raise UsageError(f"outputs.to: {fault}") from None


def _last(outputs: Sequence[OutputFile]) -> list[OutputFile]:
    """The same name twice keeps the last."""
    return list({output.name: output for output in outputs}.values())


def _upload(root: Path, output: OutputFile) -> StoreUpload:
    return StoreUpload(root.joinpath(*parts_of(output.name)), output.size_bytes, output.sha256)
