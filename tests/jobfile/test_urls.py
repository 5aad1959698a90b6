"""SPEC U8, J5: URLs in a job file become inputs each site reads itself, and places outputs are sent on to."""

from __future__ import annotations

import pytest

from diana.errors import UsageError
from tests.jobfile.builders import parse

_JOB = '[group]\ncommand = "cat x"\n'


def test_a_url_is_an_input_of_its_own_kind_with_a_ref_for_each_file() -> None:
    job = parse(_JOB + "[sweep]\nn = '1-3'\n[[inputs]]\nurl = 'https://host/a/part-{n}.bin?v=1'\npath = 'x'")
    assert job.spec.inputs[0].source == "url:https://host/a/part-{n}.bin?v=1" and job.spec.inputs[0].path == "x"
    assert [(ref, list(jobs)) for ref, jobs in job.refs] == [
        (f"url:https://host/a/part-{n}.bin?v=1", [n - 1]) for n in (1, 2, 3)
    ]
    assert job.needs_files == ()


def test_its_default_path_is_the_last_name_without_the_query() -> None:
    job = parse("inputs = ['https://host/a/b.bin?v=1', 's3://bucket/deep/c.bin', 'file:///mnt/d']\n" + _JOB)
    assert [each.path for each in job.spec.inputs] == ["b.bin", "c.bin", "d"]


def test_a_path_with_file_and_one_colon_is_still_uploaded() -> None:
    assert parse("inputs = ['file:a/b']\n" + _JOB).needs_files == ("a/b",)


def test_outputs_go_to_a_url_and_the_merge_runs_in_the_groups_own_folder() -> None:
    outputs = parse(_JOB + "[outputs]\ncollect = 'x'\nto = 's3://bucket/run'\nmerge = 'cat x'").spec.outputs
    assert outputs.to == "s3://bucket/run" and outputs.folder == ""
    assert parse(_JOB + "[outputs]\ncollect = 'x'\nto = '/r'").spec.outputs.folder == "/r"


def test_too_many_urls_are_refused_with_the_way_out() -> None:
    with pytest.raises(UsageError, match=r"job: inputs: 10001 different URLs; at most 10000 .* register the files"):
        parse(_JOB + "[sweep]\nn = '0-10000'\n[[inputs]]\nurl = 'https://host/{n}'\npath = 'x'")
