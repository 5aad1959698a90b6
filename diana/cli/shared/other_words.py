"""Verbs and options of other schedulers, each with the one here that does the same: what stands close in letters is
often not what was meant. Read for a mistake alone."""

from __future__ import annotations

VERBS = {
    "cat": "logs",
    "condor_q": "status",
    "condor_rm": "cancel",
    "condor_submit": "submit",
    "delete": "drop",
    "describe": "explain",
    "download": "fetch",
    "forget": "drop",
    "get": "fetch",
    "info": "status",
    "jobs": "status",
    "kill": "cancel",
    "list": "groups",
    "ls": "groups",
    "nodes": "sites",
    "output": "logs",
    "ps": "status",
    "purge": "drop",
    "qdel": "cancel",
    "qhold": "hold",
    "qrls": "release",
    "qstat": "status",
    "qsub": "submit",
    "remove": "drop",
    "rerun": "retry",
    "resubmit": "retry",
    "resume": "release",
    "rm": "drop",
    "run": "submit",
    "sacct": "results",
    "sbatch": "submit",
    "scancel": "cancel",
    "scontrol": "hold, release or explain",
    "show": "status",
    "sinfo": "sites",
    "squeue": "status",
    "srun": "submit --wait",
    "start": "node",
    "tail": "logs --tail 20",
    "unhold": "release",
    "version": "--version",
    "watch": "status --watch",
}

_OUTPUT = "what jobs print is read with diana logs; --set group.stdout=FILE brings it home as a file"
_FORCE = "it asks nothing; with --outputs also what lies at the node alone is deleted"
_JOB = {
    "--chdir": "--cwd",
    "--cores": "--cpus",
    "--cpus-per-task": "--cpus",
    "--dependency": "--after",
    "--depends": "--after",
    "--email": "--notify",
    "--error": "--set group.stderr=FILE",
    "--gres": "--gpus",
    "--image": "--container",
    "--job-name": "--name",
    "--jobs": "--max-parallel",
    "--mail": "--notify",
    "--mail-user": "--notify",
    "--mem": "--memory",
    "--ncpus": "--cpus",
    "--nodelist": "--sites",
    "--output": _OUTPUT,
    "--outputs": "--collect",
    "--partition": "--sites",
    "--queue": "--sites",
    "--time-limit": "--time",
    "--walltime": "--time",
    "--workdir": "--cwd",
    "-D": "--cwd",
    "-J": "--name",
    "-a": "--array",
    "-c": "--cpus",
    "-e": "--set group.stderr=FILE",
    "-j": "--max-parallel",
    "-n": "--cpus",
    "-o": _OUTPUT,
    "-p": "--sites",
    "-t": "--time",
}
_SUBMIT = {
    **_JOB,
    "--detach": "submit returns once the group is on disk",
    "--dry-run": "diana plan",
    "--follow": "diana logs -f",
    "--test-only": "diana plan",
    "-W": "--wait",
    "-w": "--wait",
}
_OPTIONS: dict[str, dict[str, str]] = {
    "submit": _SUBMIT,
    "plan": _JOB,
    "logs": {"-n": "--tail", "--lines": "--tail", "--last": "--tail", "--watch": "--follow"},
    "status": {"-u": "--mine", "--user": "--mine", "-w": "--watch", "--follow": "--watch", "-n": "--limit"},
    "groups": {"-u": "--mine", "--user": "--mine", "-n": "--limit"},
    "results": {"--state": "--outcome", "--failed": "--outcome failed", "-n": "--limit"},
    "fetch": {"--output": "--to", "-o": "--to", "--dir": "--to"},
    "wait": {"-t": "--timeout", "-q": "--quiet"},
    "drop": {"--force": _FORCE, "-f": _FORCE, "--before": "--older-than", "--age": "--older-than"},
}


def option(verb: str, word: str) -> str:
    """Return the mend for this option of others, as `verb` has it, in a clause; empty: none is known."""
    here = _OPTIONS.get(verb, {}).get(word.partition("=")[0], "")
    return f"did you mean {here}?" if here.startswith(("-", "diana ")) else here
