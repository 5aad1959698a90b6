"""docs/snakemake.md, typed as it stands: a workflow of fifty jobs over two sites, then one with a rule that fails and
one that fits nowhere. About a minute on two cores: each job starts Snakemake anew."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.e2e.grid import REPO, Grid, Site, free_port, until
from tests.real.page import Shell, blocks

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(400)]

PAGE = "snakemake.md"
SAMPLES, PARTS = 40, 8
SUM = sum(k * k for k in range(SAMPLES))


def typed(grid: Grid, folder: Path) -> dict[str, str]:
    """The output of each command of the page, by its words."""
    ports = {"7400": str(free_port()), "7401": str(free_port())}
    sites = {
        name: Site(name, folder / "grid" / name, int(port), grid.mark)
        for name, port in zip(("alpha", "beta"), ports.values(), strict=True)
    }

    def here(command: str) -> str:
        for port, free in ports.items():
            command = command.replace(f":{port}", f":{free}")
        # Other tests' nodes may be about; the two find each other by address.
        return re.sub(r"^diana node (.*) &$", rf"diana node \1 --no-zeroconf >> {folder}/nodes.out 2>&1 &", command)

    said = {}
    with Shell(grid, folder, here) as shell:
        for kind, text in blocks(PAGE):
            if kind == "python":
                (folder / text.partition("\n")[0].removeprefix("# ")).write_text(text)
                continue
            for command in text.splitlines():
                if command == "diana sites":
                    for site in sites.values():
                        grid.sites[site.name] = site
                    until(lambda: all(met(site) for site in sites.values()), "the sites see each other", 20)
                said[command] = shell.say(command, code=int("wrong.smk" in command))
    return said


def met(site: Site) -> bool:
    if not site.paths.socket.exists():
        return False
    with site.client() as client:
        return {other.site for other in client.sites() if other.state == "alive"} == {"alpha", "beta"}


def test_the_page_is_true(grid: Grid, tmp_path: Path) -> None:
    """SPEC U9: a workflow of Snakemake over two real sites."""
    said = typed(grid, tmp_path)
    right = said["snakemake --executor diana --jobs 100"]
    assert "51 of 51 steps (100%) done" in right and "Traceback" not in right

    # Each sample and part is what it has to be, and what the report counts is where the samples say they ran.
    samples = [(tmp_path / f"samples/{k}.txt").read_text().split() for k in range(SAMPLES)]
    assert [int(value) for value, _ in samples] == [k * k for k in range(SAMPLES)]
    parts = [int((tmp_path / f"parts/{p}.txt").read_text()) for p in range(PARTS)]
    assert parts == [sum(k * k for k in range(5 * p, 5 * p + 5)) for p in range(PARTS)]
    ran = {site: sum(where == site for _, where in samples) for site in ("alpha", "beta")}
    assert sum(ran.values()) == SAMPLES and min(ran.values()) > 0, ran
    report = [line.split() for line in (tmp_path / "report.txt").read_text().splitlines()]
    assert report == [["sum", str(SUM)], *([str(count), site] for site, count in ran.items())]

    # Forty samples were one submission, the others at most one each.
    groups = [line.split() for line in said["diana status"].splitlines() if line.startswith("alpha-")]
    assert [(row[1], row[3]) for row in groups[-1:]] == [("sample", str(SAMPLES))]
    assert sum(int(row[3]) for row in groups) == SAMPLES + PARTS + 2 and all(row[2] == "done" for row in groups)
    assert len(groups) <= 1 + PARTS + 2

    wrong = next(text for command, text in said.items() if "wrong.smk" in command)
    (line,) = (line for line in wrong.splitlines() if line.startswith("diana: 1 job of huge not taken: "))
    assert "Traceback" not in wrong and '  File "' not in wrong
    assert (tmp_path / "fine.txt").read_text() == "beta\n" and not (tmp_path / "huge.txt").exists()
    failed = re.search(r"message: diana job (\S+) at (alpha|beta) ended with exit code 1\n.*?log: (\S+) ", wrong, re.S)
    assert failed, wrong
    log = Path(failed[3])
    assert log == tmp_path / f".snakemake/diana_log/{failed[1]}.log" and "no reads in lane 3" in log.read_text()
    assert wrong.count("\nno reads in lane 3\n") == 1
    shown = (REPO / "docs" / PAGE).read_text()
    assert f"    {line}\n" in shown, f"docs/{PAGE} shows another line than: {line}"
    assert f"    sum {SUM}\n" in shown
