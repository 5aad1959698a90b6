"""The demo's input and the job file that works on it: a file any user could have written."""

from __future__ import annotations

import json
import shlex
import shutil
import sys
from pathlib import Path

import msgspec

from diana.demo import generate, histogram, merge

SEED = 20061


class Sample(msgspec.Struct, frozen=True):
    """A dataset and the site its files live at. Job k reads the k-th file of all samples in their order."""

    site: str
    files: tuple[Path, ...]

    @property
    def name(self) -> str:
        return f"collisions-{self.site}"


def make_samples(folder: Path, sites: list[str], jobs: int) -> list[Sample]:
    """`jobs` files of events, dealt over one dataset per site, so that each site holds its part."""
    samples = []
    made = 0
    for k, site in enumerate(sites):
        count = jobs // len(sites) + (k < jobs % len(sites))
        here = folder / site
        here.mkdir(parents=True, exist_ok=True)
        files = tuple(here / f"part-{number}.dat" for number in range(count))
        for path in files:
            generate.write_file(path, SEED, made)
            made += 1
        if files:
            samples.append(Sample(site, files))
    return samples


def write_job(folder: Path, samples: list[Sample], outputs: Path) -> Path:
    """`job.toml` in `folder`, with the programs it names beside it."""
    for program in (histogram, merge):
        source = Path(str(program.__file__))
        shutil.copyfile(source, folder / source.name)
        (folder / source.name).chmod(0o755)
    python = shlex.quote(sys.executable)
    merge_program = shlex.quote(str(folder / "merge.py"))
    text = _JOB.format(
        command=json.dumps(f"{_braced(python)} -I -S histogram.py events.dat hist-{{sample}}-{{part}}.json"),
        sweep=_sweep(folder, samples),
        outputs=json.dumps(str(outputs)),
        merge=json.dumps(f"{_braced(python)} -I -S {_braced(merge_program)} histogram.json"),
    )
    path = folder / "job.toml"
    path.write_text(text, encoding="utf-8")
    return path


_JOB = """\
# One bulk group: a job per file of collision events.
[group]
name = "z-peak"
command = {command}

{sweep}

[resources]
work = "0.3s"

[[inputs]]
url = "histogram.py"

[[inputs]]
url = "dataset:collisions-{{sample}}/part-{{part}}.dat"
path = "events.dat"

[outputs]
collect = "hist-{{sample}}-{{part}}.json"
to = {outputs}
merge = {merge}
"""


def _sweep(folder: Path, samples: list[Sample]) -> str:
    """The product when all samples have equally many files, else a CSV file with a row per file."""
    sites = [sample.site for sample in samples]
    counts = {len(sample.files) for sample in samples}
    if len(counts) == 1:
        last = counts.pop() - 1
        return f'[sweep]\nsample = {json.dumps(sites)}\npart = "0-{last}"'
    rows = [f"{site},{part}" for site, sample in zip(sites, samples, strict=True) for part in range(len(sample.files))]
    (folder / "files.csv").write_text("\n".join(["sample,part", *rows]) + "\n", encoding="ascii")
    return '[sweep]\nfrom = "files.csv"'


def _braced(text: str) -> str:
    """The text as literal text within a template."""
    return text.replace("{", "{{").replace("}", "}}")
