"""Which of an engine's jobs make one group, and that the group's jobs run what the engine said, to the letter."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from diana.errors import UsageError
from diana.jobfile.raw import RawJob
from diana.model.job.spec import GroupSpec, Resources
from diana.model.job.sweep import Parameters, decode_rows
from diana.model.job.template import compile_template
from diana.workflows.rule_jobs import (
    KEYS,
    MOST_COMMAND_BYTES,
    TABLE,
    JobBatch,
    RuleJob,
    gather,
    job_file,
    options,
    rule_job,
    table,
)
from tests.jobfile.builders import Blobs, parse

GIB = 1 << 30


def job(command: str = "true", name: str = "align", **wants: Any) -> RuleJob:
    return RuleJob(name=name, command=command, **{"cpus": 1, **wants})


def read(
    batch: JobBatch, environment: dict[str, str] | None = None, *, directory: bool = False
) -> tuple[GroupSpec, Blobs]:
    """As a node reads what the client sends of it."""
    blobs = Blobs()
    file = job_file(batch, environment or {}, directory=directory)
    files = {TABLE: table(batch).encode()} if "sweep" in file else {}
    return parse(json.dumps(file), "json", options(batch), files, blobs).spec, blobs


def commands(batch: JobBatch) -> list[str]:
    """The command of each job of the group."""
    spec, blobs = read(batch)
    assert spec.argv[:2] == ("/bin/sh", "-c")
    rows = decode_rows(blobs.kept[spec.sweep.table.blob]) if spec.sweep.table else None
    parameters = Parameters(spec.sweep, rows)
    template = compile_template(spec.argv[2])
    return [template.render(parameters.of(index)) for index in range(len(batch.jobs))]


TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=30)


@given(TEXT, st.lists(TEXT, min_size=1, max_size=5), TEXT)
def test_every_job_runs_its_own_command_to_the_letter(head: str, middles: list[str], tail: str) -> None:
    wanted = [f"x{head}{middle}{tail}" for middle in middles]
    (batch,) = gather([job(command) for command in wanted])
    assert commands(batch) == wanted


def test_what_all_commands_share_travels_once() -> None:
    shared = "cd /work && python -m snakemake --snakefile Snakefile " * 20
    (batch,) = gather([job(f"{shared}--target-jobs align:s={k} --cores all") for k in range(1000)])
    text = table(batch)
    assert text.count("\n") == 1001 and len(text) < 10 * 1001
    assert commands(batch)[17].endswith("--target-jobs align:s=17 --cores all")


def test_ten_thousand_samples_of_a_rule_are_one_group_in_their_order() -> None:
    """SPEC U9: a rule of a workflow engine becomes one bulk group."""
    (batch,) = gather([job(f"run {k}") for k in range(10_000)])
    assert batch.members == tuple(range(10_000))


def test_jobs_of_another_rule_or_with_other_wants_are_another_group() -> None:
    jobs = [
        job("a", "align"), job("b", "call"), job("c", "align", cpus=2), job("d", "align", time_s=60),
        job("e", "align", gpus=1), job("f", "align", options=(("group.sites", "beta"),)), job("g", "align"),
    ]  # fmt: skip
    assert sorted(batch.members for batch in gather(jobs)) == [(0, 6), (1,), (2,), (3,), (4,), (5,)]


def test_memory_that_hardly_differs_shares_a_group_under_the_largest() -> None:
    jobs = [job(f"run {k}", memory=(8 * GIB) - k * (1 << 20)) for k in range(3000)]
    batches = gather(jobs)
    assert len(batches) < 6
    for batch in batches:
        spec, _ = read(batch)
        assert spec.resources.memory_bytes == max(one.memory for one in batch.jobs)
        assert min(one.memory for one in batch.jobs) >= spec.resources.memory_bytes * 7 / 8
        assert not batch.alike() and batch.members == tuple(sorted(batch.members))
    assert sorted(member for batch in batches for member in batch.members) == list(range(3000))


def test_where_the_largest_fits_nowhere_each_is_asked_for_by_itself() -> None:
    (batch,) = gather([job("a", memory=8 * GIB), job("b", memory=7 * GIB), job("c", memory=8 * GIB)])
    apart = batch.apart()
    assert [part.members for part in apart] == [(0, 2), (1,)] and all(part.alike() for part in apart)


def test_a_group_whose_commands_would_fill_a_table_is_made_several() -> None:
    jobs = [job(f"{k} " + "x" * 100_000) for k in range(1000)]
    batches = gather(jobs)
    assert len(batches) == 3 and sum(len(batch.jobs) for batch in batches) == 1000


def test_resources_become_those_of_the_job_file() -> None:
    told = {"mem_mb": 2000, "mem_mib": 1908, "disk_mb": 500, "runtime": 90, "gpu": 2, "tmpdir": "/tmp", "nodes": 1}
    spec, _ = read(gather([rule_job("align", "true", 4, told)])[0], directory=True)
    assert spec.resources == Resources(
        processors=4, memory_bytes=2_000_000_000, time_limit_s=5400.0, gpus=2, scratch_bytes=500_000_000
    )
    assert (spec.name, spec.own_directory, spec.on_crash, spec.sites) == ("align", True, "rerun", ())


def test_a_rule_says_what_diana_alone_understands() -> None:
    told = {"diana_sites": "beta,alpha", "diana_on_crash": "hold", "diana_work": "30m", "diana_max_subgroup": 50}
    spec, _ = read(gather([rule_job("align", "true", 1, told, sites="gamma")])[0])
    assert (spec.sites, spec.on_crash, spec.max_subgroup) == (("alpha", "beta"), "hold", 50)
    assert spec.resources.work_s == 1800.0
    spec, _ = read(gather([rule_job("align", "true", 1, {}, sites="gamma")])[0])
    assert spec.sites == ("gamma",)


def test_every_key_it_passes_on_is_one_of_the_job_file() -> None:
    fields = {f"{section}.{key}" for section in ("group", "resources") for key in _keys(section)}
    assert set(KEYS.values()) <= fields


def _keys(section: str) -> list[str]:
    kind = type(getattr(RawJob(), section))
    return list(kind.__struct_encode_fields__)


def test_variables_go_with_the_group_as_they_are() -> None:
    spec, _ = read(gather([job()])[0], {"TOKEN": "a{b}c $x"})
    ((name, text),) = spec.environment
    assert (name, compile_template(text).render({})) == ("TOKEN", "a{b}c $x")


@pytest.mark.parametrize(
    ("resources", "line"),
    [
        ({"diana_site": "beta"}, "resource diana_site: unknown; did you mean 'diana_sites'?"),
        ({"mem_mb": "lots"}, "resource mem_mb: 'lots': want a whole number, 0 or more"),
        ({"runtime": -1}, "resource runtime: -1: want a whole number, 0 or more"),
    ],
)
def test_a_mistake_is_one_line(resources: dict[str, Any], line: str) -> None:
    with pytest.raises(UsageError) as caught:
        rule_job("align", "true", 1, resources)
    assert str(caught.value) == line


def test_a_command_no_machine_could_start_is_refused_before_it_travels() -> None:
    with pytest.raises(UsageError, match=f"has 120001 bytes, at most {MOST_COMMAND_BYTES} can be started; put fewer"):
        rule_job("align", "x" * (MOST_COMMAND_BYTES + 1), 1, {})
