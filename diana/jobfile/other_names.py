"""Names that other schedulers and job formats have for keys of a job file, so that a mistake is met with the key that
was meant, and not with one that looks alike."""

from __future__ import annotations

from difflib import get_close_matches

MEANT = {
    "accelerators": "resources.gpus",
    "args": "group.arguments",
    "chdir": "group.cwd",
    "cmd": "group.command",
    "constraint": "group.requirements",
    "constraints": "group.requirements",
    "cores": "resources.cpus",
    "cpu": "resources.cpus",
    "cpus_per_task": "resources.cpus",
    "depends": "group.after",
    "depends_on": "group.after",
    "dependency": "group.after",
    "disk": "resources.scratch",
    "duration": "resources.time",
    "email": "group.notify",
    "env": "group.environment",
    "envs": "group.environment",
    "error": "group.stderr",
    "exclude": "group.not_sites",
    "exe": "group.executable",
    "files": "inputs",
    "gpu": "resources.gpus",
    "gres": "resources.gpus",
    "image": "group.container",
    "input": "inputs",
    "job_name": "group.name",
    "license": "resources.licences",
    "licenses": "resources.licences",
    "mail": "group.notify",
    "mail_user": "group.notify",
    "max_jobs": "group.max_parallel",
    "max_retries": "group.retries",
    "mem": "resources.memory",
    "module": "group.modules",
    "nodelist": "group.sites",
    "nodeselector": "group.requirements",
    "ncpus": "resources.cpus",
    "output": "group.stdout",
    "outputs": "outputs.collect",
    "parallel": "group.max_parallel",
    "partition": "group.sites",
    "preference": "group.rank",
    "queue": "group.sites",
    "ram": "resources.memory",
    "retry": "group.retries",
    "site": "group.sites",
    "ssd": "resources.scratch",
    "threads": "resources.cpus",
    "timeout": "resources.time",
    "tmp": "resources.scratch",
    "walltime": "resources.time",
    "webhook": "group.notify",
    "workdir": "group.cwd",
    "working_directory": "group.cwd",
}
"""Name -> full key."""


def meant(name: str) -> str:
    """The full key of this name elsewhere, with or without a section, hyphens as underscores; empty: none is known."""
    return MEANT.get(name.rpartition(".")[2].replace("-", "_").lower(), "")


def close_key(name: str, keys: list[str]) -> str:
    """The full key that `name`, a full one too, is a slip of: in its own section, or the same word in another one;
    empty: there is none."""
    section, _, last = name.rpartition(".")
    beside = [key for key in keys if key.rpartition(".")[0] == section]
    if near := get_close_matches(last, [key.rpartition(".")[2] for key in beside], 1):
        return f"{section}.{near[0]}" if section else near[0]
    elsewhere = [key for key in keys if key.rpartition(".")[2] == last]
    return elsewhere[0] if len(elsewhere) == 1 else ""
