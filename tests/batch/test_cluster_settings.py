"""Cluster tables of a site file: which are taken, and the line that refuses a wrong one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from diana.adapters.batch.settings import ClusterSettings
from diana.adapters.batch.systems import kinds
from diana.adapters.batch.systems.slurm import Slurm
from diana.errors import UsageError
from diana.node.config.site_file import parse_config
from diana.node.config.text import config_text
from tests.batch.plugin import installed

HEAD = 'site = "alpha"\nvo = "lab"\n'


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("clusters = 4", "site.toml:clusters: 4 is not a table; write it under a [heading]"),
        ("[clusters]\na = 4", "site.toml:clusters.a: 4 is not a table; write [clusters.a]"),
        (
            "[clusters.A]",
            "site.toml:clusters.A: no name for a cluster; write a-z, 0-9 and inner hyphens, unlike a machine's",
        ),
        (
            "[clusters.main]",
            "site.toml:clusters.main: no name for a cluster; write a-z, 0-9 and inner hyphens, unlike a machine's",
        ),
        ("[clusters.a]\nslot = 4", "site.toml:clusters.a.slot: unknown key; did you mean clusters.a.slots?"),
        ("[clusters.a]\nslots = -1", "site.toml:clusters.a.slots: -1 is out of range; want 0 to 10000000"),
        ("[clusters.a]\nlook_s = 0.0", "site.toml:clusters.a.look_s: 0.0 is out of range; want 0.05 to 600"),
        ('[clusters.a]\nsetup = ["a\\nb"]', "site.toml:clusters.a.setup: 'a\\nb' is out of range; want one line"),
        (
            '[clusters.a]\nfolder = "shared"',
            "site.toml:clusters.a.folder: 'shared' is out of range; want an absolute path",
        ),
        (
            '[clusters.a]\ngpu_resource = "gpu"',
            "site.toml:clusters.a.gpu_resource: 'gpu' is out of range; want none where slurm counts GPUs itself",
        ),
        (
            '[clusters.a]\nkind = "gridengine"\ngpu_resource = "gpu,x"',
            "site.toml:clusters.a.gpu_resource: 'gpu,x' is out of range; "
            "want the name of a consumable, as qconf -sc shows it",
        ),
        (
            '[clusters.a]\nkind = "pbs"\nmpi = "mpirun"',
            "site.toml:clusters.a.mpi: 'mpirun' is out of range; want none, for pbs is asked for no MPI jobs yet",
        ),
        (
            '[clusters.a]\nmpi = "srun \'x"',
            'site.toml:clusters.a.mpi: "srun \'x" is out of range; want words of a shell (No closing quotation)',
        ),
        (
            '[clusters.a]\nmpi = "A=1 srun"',
            "site.toml:clusters.a.mpi: 'A=1 srun' is out of range; "
            "want one line that begins with a program, such as mpirun -n {n}",
        ),
        (
            '[clusters.a]\nkind = "gridengine"\nmpi = "mpirun"',
            "site.toml:clusters.a.mpi_environment: '' is out of range; "
            "want the parallel environment of MPI jobs (qconf -spl)",
        ),
        (
            '[clusters.a]\nmpi = "srun"\nmpi_environment = "x"',
            "site.toml:clusters.a.mpi_environment: 'x' is out of range; want none without gridengine and mpi",
        ),
        (
            '[clusters.a.software]\nmpi = "mpirun -n {n}"',
            "site.toml:clusters.a.software.mpi: 'mpirun -n {n}' is out of range; "
            "want it as mpi of the cluster's own table",
        ),
        (
            '[software]\nmpi = "mpirun"',
            "site.toml:software.mpi = 'mpirun': want {n} where it is told how many processes to start",
        ),
        (
            '[clusters.a]\nkind = "htcondor"\nlicences = { a = "b" }',
            "site.toml:clusters.a.licences.a: 'b' is out of range; want none, for htcondor is asked for none yet",
        ),
        (
            '[clusters.a.licences]\nmatlab = "a,b"',
            "site.toml:clusters.a.licences.matlab: 'a,b' is out of range; want names of letters, digits and . _ @ + -",
        ),
        ("[clusters.a]\nsoftware = 4", "site.toml:clusters.a.software: 4 is not a table; write it under a [heading]"),
        (
            '[clusters.a.software]\ncontainer = "lxc"',
            "site.toml:clusters.a.software.container: 'lxc' is not "
            '"" or "apptainer" or "singularity" or "podman" or "docker"',
        ),
        (
            '[clusters.a.software.modules]\n"a b" = "true"',
            'site.toml:clusters.a.software.modules."a b": no job can ask for that; '
            "want letters, digits and . _ / + @ : = , -",
        ),
        (
            'role = "member"\nroot = ["h:1"]\nmachine = "m"\n[clusters.a]',
            "site.toml:clusters: a member has none; write them at the machine that leads its site",
        ),
        (
            '[clusters.a]\n[run_as]\n"*" = "nobody"',
            "site.toml:run_as: a batch system runs all jobs as the node's account; leave run_as or clusters out",
        ),
    ],
)
def test_a_bad_table_is_refused_in_one_line(text: str, line: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_config(HEAD + text)
    assert str(caught.value) == line


def test_a_site_file_with_clusters_is_written_as_it_is_read() -> None:
    text = HEAD + '[clusters.a]\npartition = "x"\nsetup = ["module load gcc"]\n[clusters.b]\nslots = 8\n'
    text += '[clusters.b.software]\ncontainer = "apptainer"\n[clusters.c]\npartition = "y"\n[clusters.c.software]\n'
    config = parse_config(text)
    assert parse_config(config_text(config)) == config
    assert config.clusters["a"].setup == ("module load gcc",)
    # One that has nothing of what the site offers is not one that says nothing.
    told = [None if (has := config.clusters[name].software) is None else has.offered() for name in "abc"]
    assert told == [None, ("containers",), ()]


def test_a_batch_system_is_one_of_dianas_or_a_plug_ins(tmp_path: Path) -> None:
    where = "site.toml:clusters.a"
    assert isinstance(kinds.make(ClusterSettings(), where), Slurm)
    with pytest.raises(
        UsageError, match=r"kind: 'background' is no batch system; known are gridengine, htcondor, pbs, slurm$"
    ):
        kinds.make(ClusterSettings(kind="background"), where)
    with pytest.raises(UsageError, match=r"a\.config: /no/common/settings\.sh: No such file .*; give the path"):
        kinds.make(ClusterSettings(kind="gridengine", config="/no"), where)
    with installed(tmp_path):
        made = kinds.make(ClusterSettings(kind="background", config=str(tmp_path / "b"), slots=3), where)
    assert (made.kind, made.capacity().slots) == ("background", os.cpu_count())
