"""A table of `[clusters]` in `site.toml`."""

from __future__ import annotations

import re
from collections.abc import Iterable

import msgspec

from diana.adapters.lrm.software import Software, check_launcher, here
from diana.model.job.licences import COUNTED_THERE, NAMES, is_name, named
from diana.model.job.software import is_build, platform

_KNOW_GPUS = ("slurm", "pbs", "htcondor")
_KNOW_MPI = _KNOW_LICENCES = ("slurm", "gridengine")


class ClusterSettings(msgspec.Struct, frozen=True, kw_only=True):
    """ValueError names the key, its value and what it may be."""

    kind: str = "slurm"
    """Kind of batch system: slurm, gridengine, pbs, htcondor, or the name of a plug-in."""
    slots: int = 0
    """Processors this site's jobs may hold there at once; 0: all there are."""
    share: float = 1.0
    """Largest part of its processors that this site's jobs hold."""
    leave_free: int = 0
    """Processors that are to stay free for others: this site's jobs take only those that are idle beyond them."""
    partition: str = ""
    """The partition or queue jobs are sent to, or HTCondor's schedd; empty: the cluster's default."""
    account: str = ""
    """Account that the cluster charges; empty: its default for the node's account."""
    qos: str = ""
    config: str = ""
    """Path for a cluster that is not the machine's own: as SLURM_CONF or CONDOR_CONFIG names it, of a pbs.conf, or
    of a Grid Engine cell."""
    folder: str = ""
    """Folder shared by the site's machines that may lead it and by the cluster's: scripts and ends of jobs lie
    there, and the leader takes over what the other gave. Empty: the data directory, and nobody takes over."""
    options: tuple[str, ...] = ()
    """Further options of the command that submits; for HTCondor, lines of its submit description."""
    setup: tuple[str, ...] = ()
    """Shell lines before each job."""
    address: str = "hostname -f"
    """Shell words that print, on a machine of the cluster, the address by which components of gangs elsewhere reach
    what runs there."""
    look_s: float = 1.0
    """Seconds between two looks for ended jobs."""
    ask_s: float = 15.0
    """Seconds between two questions to the batch system."""
    begin_s: float = 300.0
    """Seconds after which a job that the batch system calls running and that has not begun is submitted anew."""
    settle_s: float = 30.0
    """Seconds within which the node sees what a cluster's machine wrote."""
    scratch_bytes: int = 0
    """Room on the local disk that one job may ask for there at most, bytes; 0: not known, nothing is checked."""
    gpu_resource: str = ""
    """Grid Engine's consumable of which a job takes as much as it wants GPUs; empty: it hands out none."""
    licences: dict[str, str] = {}
    """Name by which jobs ask for a licence -> the batch system's own name of it: Slurm's licence, or a consumable of
    Grid Engine that counts it for the whole cluster. Slurm's others go by their own names."""
    mpi: str = ""
    """Shell words before the command of an MPI job there, which start it on all its processors; empty: it runs none."""
    mpi_environment: str = ""
    """Grid Engine's parallel environment for MPI jobs."""
    platform: str = ""
    """Platform of its machines, as `uname -m` names it there; empty: that of the machine that feeds it."""
    software: Software | None = None
    """Software that jobs may ask for there besides; None: what the site offers."""

    def __post_init__(self) -> None:
        for key, least, most in (("slots", 0, 10_000_000), ("leave_free", 0, 10_000_000), ("scratch_bytes", 0, 2**60)):
            value = getattr(self, key)
            if not least <= value <= most:
                raise ValueError(f"{key} = {value}: want {least} to {most}")
        for key, low, high in (
            ("share", 0.001, 1.0),
            ("look_s", 0.05, 600.0),
            ("ask_s", 0.2, 3600.0),
            ("begin_s", 1.0, 86400.0),
            ("settle_s", 0.0, 3600.0),
        ):
            value = getattr(self, key)
            if not low <= value <= high:
                raise ValueError(f"{key} = {value}: want {low:g} to {high:g}")
        if self.gpu_resource and self.kind in _KNOW_GPUS:
            raise ValueError(f"gpu_resource = {self.gpu_resource!r}: want none where {self.kind} counts GPUs itself")
        if self.gpu_resource and not re.fullmatch(r"[A-Za-z_][\w.]*", self.gpu_resource, re.ASCII):
            raise ValueError(
                f"gpu_resource = {self.gpu_resource!r}: want the name of a consumable, as qconf -sc shows it"
            )
        self._check_mpi()
        self._check_licences()
        for key in ("options", "setup", "address", "partition", "account", "qos", "config", "folder"):
            value = getattr(self, key)
            for line in value if isinstance(value, tuple) else (value,):
                if "\n" in line or "\0" in line:
                    raise ValueError(f"{key} = {line!r}: want one line")
        if self.folder and not self.folder.startswith("/"):
            raise ValueError(f"folder = {self.folder!r}: want an absolute path")

    def _check_mpi(self) -> None:
        if self.platform and not is_build(self.platform):
            raise ValueError(f"platform = {self.platform!r}: want it as uname -m names it, such as x86_64")
        if self.software is not None and self.software.mpi:
            raise ValueError(f"software.mpi = {self.software.mpi!r}: want it as mpi of the cluster's own table")
        if self.mpi and self.kind not in _KNOW_MPI:
            raise ValueError(f"mpi = {self.mpi!r}: want none, for {self.kind} is asked for no MPI jobs yet")
        if self.mpi:
            check_launcher(self.mpi)
        wanted = self.kind == "gridengine" and bool(self.mpi)
        if wanted and not re.fullmatch(r"[A-Za-z_][\w.-]*", self.mpi_environment, re.ASCII):
            raise ValueError(
                f"mpi_environment = {self.mpi_environment!r}: want the parallel environment of MPI jobs (qconf -spl)"
            )
        if self.mpi_environment and not wanted:
            raise ValueError(f"mpi_environment = {self.mpi_environment!r}: want none without gridengine and mpi")

    def _check_licences(self) -> None:
        for name, there in self.licences.items():
            if self.kind not in _KNOW_LICENCES:
                raise ValueError(f"licences.{name} = {there!r}: want none, for {self.kind} is asked for none yet")
            if not is_name(name) or not is_name(there):
                raise ValueError(f"licences.{name} = {there!r}: want names of {NAMES}")

    def licences_there(self, wanted: Iterable[tuple[str, int]]) -> tuple[tuple[str, int], ...]:
        """Return the licences by the batch system's own names."""
        return tuple((self.licences.get(name, name), count) for name, count in wanted)

    def offers(self, site: Software) -> Software:
        """Return the software jobs may ask for there at a site that offers `site`: a launcher is the machine's own."""
        return msgspec.structs.replace(site if self.software is None else self.software, mpi=self.mpi)

    def offer(self, site: Software, licences: Iterable[tuple[str, int]]) -> tuple[str, ...]:
        """Return the offer as other sites are told it. `licences`: those there are."""
        kind = platform(self.platform) if self.platform else here()
        return (*self.offers(site).offered(), kind, *named(licences), COUNTED_THERE)
