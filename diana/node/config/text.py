"""Writes `site.toml` with a comment for every key, so that the file is its own manual."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from diana.adapters.batch.settings import ClusterSettings
from diana.model.settings import Settings
from diana.node.config.maintenance import as_table
from diana.node.config.site_file import SiteConfig

_NODE = {
    "site": "Name of this site; peers know it by its certificate.",
    "vo": "The virtual organisation it belongs to.",
    "listen": "host:port the node binds. Anything but loopback wants the keys beside this file.",
    "advertise": "host:port others reach it by, if that differs from listen; none: others cannot dial this site.",
    "peers": "Sites to dial always: host:port.",
    "zeroconf": "Look for sites of the VO on the local network too.",
    "operators": "Local accounts that may act on every group here, and on the site.",
    "log_format": "How node.log is written: text, or json (one object a line).",
}

_MACHINE = {
    "role": "Role of this machine in its site: site (its own node), member (runs jobs only) or standby.",
    "machine": "Name of this machine within its site.",
    "root": "Machines of the site that may lead it: host:port. A member or standby dials them; a member with zeroconf "
    "may name none.",
    "witness": "The site that arbitrates between this site and its standby; empty: chosen by itself.",
}

_JOBS = {
    "gpus": "GPUs of this machine, each for one job at a time: how many there are, or their names as CUDA knows them.",
    "pin_cpus": "Each slot has a processor of this machine, and a job runs on those of its slots alone.",
    "max_processes": "Most processes that one job may have at once; one with more is ended.",
    "keep_failed_s": "The directory of a job that left not all of its outputs stays so long, seconds; 0: none stays.",
    "max_grace_s": "Most seconds that a job has between SIGTERM and SIGKILL, whatever its job file asks for.",
    "root_jobs": "Jobs may run as root, where the node does and [run_as] is empty.",
    "run_as_program": "The root program that becomes the accounts of [run_as]; `diana site run-as install` makes it.",
}

_TRUST = {
    "leaf_days": "Certificates of sites and machines that this site signs hold this long, days; renewed at half of it.",
    "user_days": "Certificates of users that this site signs hold this long, days.",
}

_TRACES = {
    "endpoint": "An OpenTelemetry collector that is told how groups went: http://HOST:PORT of its OTLP over gRPC.",
}

_NOTIFY = {
    "sendmail": "Program that sends mails when groups are over (notify of a job file); empty: none is sent.",
    "sender": "Their sender; empty: as the program has it.",
    "private_hosts": "Hosts of notify = https://... that may be this machine or have private addresses.",
    "certificates": "PEM file of authorities that such addresses may have certificates of; empty: the machine's own.",
}

_STAGING = {
    "urls": "Beginnings of URLs jobs may name: s3://BUCKET/, sftp://HOST/, file:///FOLDER/ want to be listed here.",
    "rate_bytes_per_s": "All data fetched from other sites, and all served to them, each at most so fast; 0: no limit.",
    "cache_bytes": "Fetched data kept when no job needs them; 0: 10 GiB or half the free space, whichever is less.",
    "copy_bytes": "Of one job's inputs so much is copied into its directory, a file counting 64 KiB at least.",
}

_SOFTWARE = {
    "container": "The program that runs jobs in an image: apptainer, singularity, podman or docker; empty: none does.",
    "modules": 'Modules that jobs may have made ready: { NAME = "shell line" }; "*" is any other NAME, in $module.',
    "mpi": "Words before the command of an MPI job, which start it {n} times: mpirun -n {n}; empty: it runs none.",
    "mpi_over_sites": "MPICH's mpiexec.hydra, for MPI jobs over several sites; empty: none of them has a part here.",
}

_WEB = {
    "listen": "host:port of the dashboard, `diana dashboard` opens it; port 0: any free one; none: there is none.",
    "certificate": "PEM file of a certificate browsers trust; empty: the node's own, which only the VO trusts.",
    "key": "PEM file of its key.",
    "session_hours": "After which a browser has to be let in anew, hours.",
}

_SETTINGS = {
    "slots": "Processors jobs may hold here at once; 0: this site only submits. `diana init` writes what affinity and"
    " CPU quotas leave.",
    "speed": "How much faster than the reference a job runs here.",
    "claim_ahead": "Jobs given to machines beyond the free slots; 0: twice the slots, of short jobs 0.5 s of work.",
    "accept_remote": "Take work of other sites.",
    "history_for": "Who at other sites is told this site's history (diana history export --grid): nobody, operators "
    "(everybody's groups), users (operators, and each user their own).",
    "memory_bytes": "Memory one job may ask for at most, bytes; 0: not known. `diana init` writes the machine's, or the"
    " least limit of its control groups.",
    "domain": "Name that requirements of groups know this site by, such as cs.example.edu; empty: none.",
    "max_queued_jobs": "Jobs held here before more are refused.",
    "user_max_queued": "Jobs one user may have waiting here, held ones included; 0: no limit.",
    "package_users": 'Users whose packages (programs that they bring) run here, as NAME@VO; "*": everybody\'s.',
    "licences": "Licences that jobs on this site's machines share: { matlab = 4 } at once; clusters have their own.",
    "user_max_running": "Jobs one user may have running here; 0: no limit.",
    "priority_mode": "paper: queued shares alone; default: the same until service was given, then shares by quota.",
    "quotas": 'Weights of users against each other: { "NAME@VO" = 2.0 }.',
    "default_quota": "Weight of users that quotas does not name.",
    "time_threshold_s": "Every such time waited lifts a job by half a level, seconds; 0: none does.",
    "job_threshold": "Jobs a user queues here beyond this stand one level lower; 0: none do.",
    "site_job_threshold": "The same for jobs submitted at one site.",
    "work_threshold_s": "A group whose declared work is beyond so many seconds, all its jobs together, stands half a "
    "level lower; 0: none does.",
    "bytes_threshold": "The same for the bytes of a group: its inputs and its declared outputs.",
    "service_half_life": "Half-life of past service, counted in started jobs; default mode only.",
    "default_work_s": "Assumed run time of a job whose file does not say, seconds.",
    "default_bytes_per_s": "Assumed throughput of a link nobody has measured, bytes per second.",
    "ping_every_s": "Between two measurements of the round trip to a site, seconds; six times that on idle links.",
    "probe_every_s": "A link over which nothing moved for this long is probed for its throughput, seconds.",
    "probe_bytes_per_hour": "Bytes that such probes may fetch; 0: none, only real transfers tell.",
    "link_history_every_s": "Measurements of links go into the journal at most this often, seconds.",
    "uplink_bytes_per_s": "Rate that all transfers of this site share, bytes per second; 0: not known.",
    "max_subgroup": "Largest part of a group handed to one site, jobs.",
    "division": "A group that is split is split into at least so many parts; 0: as many as pays, "
    "or 100 where the cost model is the paper's; 1: no number.",
    "placement": "How groups submitted here are placed: diana (planned by cost), or as simpler brokers do: random, "
    "round-robin, fastest, least-queue, two-choices, data-local or greedy; then nothing migrates.",
    "split": "A group may be split over sites; else only where no site can take it whole.",
    "cost_model": "Figure that ranks sites: turnaround (seconds until done) or paper (its cost).",
    "cost_raw": "The paper's terms as they are; else each is divided by its mean over the sites.",
    "cost_weights": "Weights of terms of the cost, where they are not 1: { run = 2.0 }.",
    "binding": "When jobs are bound to a site: early (when they are placed) or late (when their turn comes there, and "
    "until then they wait here).",
    "migration": "When waiting work is offered to other sites: default (when it ends earlier there), paper (Q4, "
    "while more comes than starts) or off.",
    "migration_threshold": "In paper mode: how far arrivals may outrun starts, as a share of them; 1: nothing moves.",
    "migration_window_s": "Arrivals and starts are counted over so long, seconds.",
    "migration_gain_s": "Least gain of a move, seconds.",
    "moves_per_minute": "Moves this site starts for its groups, each of any number of jobs; 0: none.",
    "invite_work_s": "With idle slots and nothing waiting, each peer with waiting work is invited to send some at most "
    "so often, seconds; 0: none is.",
    "elect": "The machine that leads hands over by itself to a standby that is more available; else it proposes "
    "that to the operator.",
    "guard_jobs": "Jobs of a group that a site may fail at once before it gets no more of them; 0: any number.",
    "guard_share": "The same for large groups, as a share of their jobs, where that is more.",
    "guard_pause_s": "Until such a site is tried with one more, seconds; twice as long each time that fails.",
    "quote_wait_s": "How long a placement waits for quotes, seconds.",
    "offer_wait_s": "How long an offer may stay unanswered before it is taken back, seconds.",
    "claim_wait_s": "How long a gang holds processors in its first try while components lack theirs, seconds; twice as "
    "long in each further try.",
    "gang_placement": "How gangs are placed whose job file does not say (gang.placement there); empty: by the kind of "
    "each job. One that divides no total is not used for flexible jobs.",
    "claim_share": "Share of the processors that gangs of one other site may hold while they wait for components "
    "elsewhere; one gang may hold what it needs.",
    "gang_quota": "Share of the processors that components of gangs may hold at one time, all gangs together, so that "
    "other jobs find room.",
    "gang_scan_s": "Between two scans of the queues in which groups of gangs wait for a place, seconds.",
    "gang_scans": "Scans of a queue in a round, where not the usual 1 (high: 2): { 'super-low' = 3 }; higher and lower "
    "are the halves of the round.",
    "gang_promote_tries": "Tries without a place after which a group of gangs rises by one queue; 0: none does.",
    "resend_first_s": "First pause before an unanswered message is sent again, seconds.",
    "resend_most_s": "Longest such pause, seconds.",
    "result_batch_s": "Results gathered this long leave in one message, seconds.",
    "summary_every_s": "How often this site tells the others how it is, seconds; a third as often when idle.",
    "suspect_after_s": "A site not heard of for this long gets no new work, seconds; more than summary_every_s; "
    "left out: at least six times that.",
    "lease_s": "Jobs with on_site_lost = rerun submitted here run on at a site that cannot reach this one for so long, "
    "seconds; after a tenth and half a minute more they are placed anew.",
    "network": "lan or wan: how patient this site is with a peer that fell silent.",
    "active_peers": "Streams held to other sites, about; those it works with count extra.",
    "gossip_peers": "So many of them are told of the other sites each summary_every_s.",
    "gossip_bytes": "Bytes that each of those is told, at most.",
    "known_sites": "Other sites in its table; in a larger VO those near it on a ring of hashed names, and partners.",
    "keep_s": "Finished groups are forgotten after this, seconds; outputs are never deleted unasked.",
    "tombstone_s": "How long old hand-overs are remembered so that they stay void, seconds.",
}

_CLUSTER = {
    "kind": "The batch system: slurm, gridengine, pbs, htcondor, or the name of a plug-in.",
    "slots": "Processors this site's jobs may hold there at once; 0: all there are.",
    "share": "At most this part of its processors is held by this site's jobs at once.",
    "leave_free": "Processors that stay free for others: this site's jobs take what is idle above that.",
    "partition": "The partition or queue jobs are sent to, or HTCondor's schedd; empty: the cluster's default.",
    "account": "Whom the cluster charges; empty: its default for the node's account.",
    "qos": "The quality of service jobs ask for; empty: the cluster's default.",
    "config": "Not this machine's own cluster: the path SLURM_CONF or CONDOR_CONFIG names, or $SGE_ROOT/$SGE_CELL.",
    "folder": "Shared with the standby, which takes over what runs there; empty: the data directory, and none does.",
    "options": "Further options of the command that submits; for HTCondor, lines of the submit description.",
    "setup": "Shell lines before each job, such as module load NAME.",
    "address": "Shell words that print, where a job runs, the address at which gangs' components elsewhere reach it.",
    "scratch_bytes": "Room on the local disk that a job may ask for at most, bytes; 0: not known, nothing is checked.",
    "gpu_resource": "Grid Engine's consumable of which a job takes as much as it wants GPUs; empty: it hands out none.",
    "licences": "Names jobs ask for licences by, and the batch system's own for each: { matlab = 'mdcs' }.",
    "platform": "Platform of its machines, as uname -m names it there; empty: that of this machine.",
    "mpi": "Launcher of MPI jobs there, which stands before their command, such as srun; empty: it runs none.",
    "mpi_environment": "Grid Engine's parallel environment for MPI jobs; with mpi alone.",
    "look_s": "Between two looks for ended jobs, seconds.",
    "ask_s": "Between two questions to the batch system, seconds.",
    "begin_s": "A job the batch system calls running and that has not begun for so long is submitted anew, seconds.",
    "settle_s": "Time within which the node sees files that a machine of the cluster wrote, seconds.",
}

_HEAD = """\
# A diana site. `diana node` reads this at start and at SIGHUP; a bad file changes nothing.
# A line that starts with `#key = ` shows the default.
"""


def write_config(path: Path, config: SiteConfig) -> None:
    """Durable and whole or not at all; mode 0600."""
    new = path.with_name(path.name + ".new")
    fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "wb") as file:
        file.write(config_text(config).encode())
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)


def config_text(config: SiteConfig) -> str:
    """Inverse of `config.parse_config`. Keys at their default are written as comments."""
    parts = [_HEAD]
    default = SiteConfig(site=config.site, vo=config.vo)
    parts += _lines(_NODE, config, default, {"site", "vo", "listen", "peers", "zeroconf", "operators"})
    parts += _lines(_MACHINE, config, default, set())
    parts += _lines(_JOBS, config, default, set())
    parts.append("# Processors, limits and waits.\n[settings]\n")
    parts += _lines(_SETTINGS, config.settings, Settings(), {"slots"})
    parts.append("# Inputs and outputs by URL, with the node's own credentials.\n[staging]\n")
    parts += _lines(_STAGING, config.staging, default.staging, set())
    parts.append("# What jobs may ask for by container, modules and mpi.\n[software]\n")
    parts += _lines(_SOFTWARE, config.software, default.software, set())
    parts.append("# Certificates this site signs.\n[trust]\n")
    parts += _lines(_TRUST, config.trust, default.trust, set())
    parts.append("# The dashboard.\n[web]\n")
    parts += _lines(_WEB, config.web, default.web, set())
    parts.append("# Groups as they went over the sites.\n[traces]\n")
    parts += _lines(_TRACES, config.traces, default.traces, set())
    # A release that does not know the section reads the file of a site that has none.
    mark = "" if config.notify != default.notify else "#"
    parts.append(f"# Ways in which users may be told that their groups are over.\n{mark}[notify]\n")
    parts += _lines(_NOTIFY, config.notify, default.notify, set())
    parts.append(
        "# Which VO principal a local account (name or uid) speaks as. Accounts not named here speak as\n"
        f'# ACCOUNT@{config.vo}; "" keeps an account from submitting.\n[users]\n'
    )
    parts += [f"{_quoted(account)} = {_quoted(owner)}\n" for account, owner in sorted(config.users.items())]
    parts.append(
        '# Local account that runs the jobs of a VO principal, "*" of all others. Empty: the node runs them itself.\n'
        "[run_as]\n"
    )
    parts += [f"{_quoted(owner)} = {_quoted(account)}\n" for owner, account in sorted(config.run_as.items())]
    mark = "" if config.resources else "#"
    parts.append(
        "# Other things of this machine, each for one job at a time, by the names that jobs ask for them: fpga = 2.\n"
        f"{mark}[resources]\n"
    )
    parts += [f"{name} = {count}\n" for name, count in sorted(config.resources.items())]
    mark = "" if config.settings.properties else "#"
    parts.append(
        '# What requirements of groups may ask of this site, as site.properties.NAME: tier = "gold".\n'
        f"{mark}[properties]\n"
    )
    parts += [f"{name} = {_quoted(text)}\n" for name, text in config.settings.properties.items()]
    for name, cluster in sorted(config.clusters.items()):
        parts.append(f"# A cluster this site sends jobs to.\n[clusters.{name}]\n")
        parts += _lines(_CLUSTER, cluster, ClusterSettings(), {"kind"})
        if cluster.software is not None:
            parts.append(f"# What jobs may ask for there.\n[clusters.{name}.software]\n")
            parts += _lines(_SOFTWARE, cluster.software, default.software, set())
    for one in config.maintenance:
        parts.append("# The site takes no work then.\n[[maintenance]]\n")
        parts += [f"{key} = {_toml(value)}\n" for key, value in as_table(one)]
    return "\n".join(part.rstrip("\n") + "\n" for part in parts)


def _lines(
    comments: Mapping[str, str], struct: msgspec.Struct, default: msgspec.Struct, always: set[str]
) -> Sequence[str]:
    lines = []
    for key, comment in comments.items():
        value = getattr(struct, key)
        mark = "" if key in always or value != getattr(default, key) else "#"
        lines.append(f"# {comment}\n{mark}{key} = {_toml(value)}")
    return lines


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{_quoted(key)} = {_toml(item)}" for key, item in sorted(value.items())) + " }"
    if isinstance(value, tuple):
        return "[" + ", ".join(_quoted(item) for item in value) + "]"
    return repr(value)


def _quoted(text: str) -> str:
    """A JSON text is a TOML basic string."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
