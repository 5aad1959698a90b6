"""Verbs that bring work: submit, plan."""

from __future__ import annotations

import argparse
import os
import sys
from typing import TYPE_CHECKING, Any

from diana.cli.shared import output
from diana.cli.shared.parsing import Command, add_json, add_node, at_least, client, duration_s, node_given
from diana.errors import UsageError

if TYPE_CHECKING:
    from diana.wire.client.messages import SubmitResponse

OPTIONS = (
    "name",
    "after",
    "array",
    "max_parallel",
    "cpus",
    "memory",
    "gpus",
    "time",
    "sites",
    "not_sites",
    "container",
    "modules",
    "mpi",
    "collect",
    "to",
    "on_crash",
    "on_site_lost",
)
"""Command-line options that travel under the job file's names and go over what stands there."""


def _add_job(parser: argparse.ArgumentParser) -> None:
    parser.usage = f"{parser.prog} [options] FILE | - | -- COMMAND [::: VALUES ...]"
    parser.add_argument(
        "job", nargs="?", metavar="FILE", help="job file, script, or - for standard input; instead of one: -- COMMAND"
    )
    parser.add_argument(
        "--format", choices=("toml", "yaml", "json", "script"), help="of the file (default: by its name)"
    )
    over = parser.add_argument_group("instead of what the job file says")
    over.add_argument("--name", help="the group's name")
    over.add_argument("--after", metavar="GROUPS", help="start when these groups are done: alpha-12,alpha-13")
    over.add_argument("--array", metavar="RANGE", help="1-100, 0-99:3 or 1,5,9; %%N behind it: at most N at once")
    over.add_argument("--max-parallel", type=at_least(1), metavar="N", help="at most N jobs at once")
    over.add_argument("--cpus", metavar="N", help="processors per job")
    over.add_argument("--memory", metavar="SIZE", help="per job: 500M, 8G")
    over.add_argument("--gpus", metavar="N", help="GPUs per job, which it has for itself")
    over.add_argument("--time", metavar="TIME", help="limit per job: 90s, 30m, 2h")
    over.add_argument("--sites", metavar="A,B", help="only these sites")
    over.add_argument("--not-sites", metavar="A,B", help="not these sites")
    over.add_argument("--container", metavar="IMAGE", help="the image each job runs in")
    over.add_argument("--modules", metavar="A,B", help="what the sites make ready before each job")
    over.add_argument(
        "--mpi", action="store_const", const="true", help="start each job once per processor, as one MPI job"
    )
    over.add_argument("--collect", metavar="A,B", help="outputs to bring back, paths below the job's directory")
    over.add_argument("--to", metavar="DIR", help="where the node gathers the outputs")
    over.add_argument("--on-crash", choices=("hold", "rerun"), help="what becomes of a job whose machine crashed")
    over.add_argument("--on-site-lost", choices=("hold", "rerun"), help="what becomes of jobs at a site that is lost")
    over.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="any key: resources.work=60")
    over.add_argument("--no-check-command", action="store_true", help="do not look whether the command exists here")


def _submit_options(parser: argparse.ArgumentParser) -> None:
    _add_job(parser)
    parser.add_argument("--key", help="submission key: the same key again gives the same group, never a second one")
    parser.add_argument("--wait", action="store_true", help="wait for the group; exit with its result")
    parser.add_argument("--timeout", type=duration_s, metavar="TIME", help="with --wait: give up waiting after this")
    parser.add_argument(
        "--parsable", action="store_true", help="print the group's id and nothing else; of several groups one per line"
    )
    add_json(parser, "SubmitResponse; with --wait GroupStatus")
    add_node(parser)


def _job_of(args: argparse.Namespace) -> dict[str, Any]:
    """Arguments of `Client.submit` and `Client.plan`."""
    options: dict[str, object] = {name: getattr(args, name) for name in OPTIONS if getattr(args, name) is not None}
    for pair in args.set:
        key, equals, value = pair.partition("=")
        if not key or not equals:
            raise UsageError(f"--set {pair}: wants KEY=VALUE, such as resources.work=60")
        options[key] = value
    if args.to is not None:
        # The node's working directory is not the user's.
        options["to"] = os.path.abspath(args.to)
    if args.no_check_command:
        options["check_command"] = False
    return {**_content(args), "options": options}


def _content(args: argparse.Namespace) -> dict[str, Any]:
    if args.command:
        if args.job is not None:
            raise UsageError(f"a job file ({args.job}) and a command after --; give either")
        return {"job": _job_of_command(args.command), "format": "json"}
    if args.job is None:
        raise UsageError("nothing to submit; name a job file, a script, or a command after --")
    if args.job != "-":
        return {"job": args.job, "format": args.format}
    content = sys.stdin.buffer.read()
    if not content.strip():
        raise UsageError("standard input: empty; pipe a job file into it")
    return {"job": content, "format": args.format or guessed_format(content)}


def _job_of_command(words: list[str]) -> dict[str, object]:
    """A program named by a relative path is one of the user's own: it travels with the group as an input."""
    from diana.jobfile.commandline import from_words

    try:
        job = from_words(words)
    except ValueError as error:
        raise UsageError(f"command: {error}") from None
    program = words[0]
    if "/" in program and not program.startswith("/") and "{" not in program and os.path.isfile(program):
        carried = os.path.basename(program)
        group = job["group"]
        assert isinstance(group, dict)
        group["command"] = [f"./{carried}", *group["command"][1:]]
        job["inputs"] = [{"url": program, "path": carried}]
    return job


def guessed_format(content: bytes) -> str:
    """Format of a job file that came without a name, by its first line that says something."""
    if content.startswith(b"#!"):
        return "script"
    lines = (line.strip() for line in content.removeprefix(b"\xef\xbb\xbf").splitlines())
    first = next((line for line in lines if line and not line.startswith(b"#")), b"")
    if first.startswith(b"{"):
        return "json"
    key = first.partition(b":")[0].strip(b"\"'")
    is_yaml = first.startswith(b"---") or (b":" in first and key.replace(b"_", b"").isalnum())
    return "yaml" if is_yaml else "toml"


def _submit(args: argparse.Namespace) -> int:
    if args.timeout is not None and not args.wait:
        raise UsageError("--timeout: limits the waiting of --wait; add --wait, or take --time for a limit per job")
    with client(args) as node:
        accepted = node.submit(key=args.key, **_job_of(args))
        if args.wait:
            from diana.cli.groups.follow import follow_all

            if not args.json:
                _show_accepted(accepted, args.parsable)
            names = [group.group for group in accepted.groups]
            given = node_given(args)
            return follow_all(node, names, args.timeout, as_json=args.json, quiet=args.parsable, given=given)
    if args.json:
        output.print_json(accepted)
    else:
        _show_accepted(accepted, args.parsable)
    return 0


def _show_accepted(accepted: SubmitResponse, parsable: bool) -> None:
    """A line per group; of several groups each with its name and what it waits for."""
    for one in accepted.groups:
        if parsable:
            output.say(one.group, flush=True)
            continue
        jobs = f"{output.counted(one.jobs, 'job')} accepted"
        after = f", waits for {', '.join(one.after)}" if one.after else ""
        name = f" {one.name}:" if len(accepted.groups) > 1 else ""
        output.say(f"{one.group}:{name} {jobs}{after}", flush=True)


def _plan_options(parser: argparse.ArgumentParser) -> None:
    _add_job(parser)
    add_json(parser, "PlanResponse")
    add_node(parser)


def _plan(args: argparse.Namespace) -> int:
    with client(args) as node:
        planned = node.plans(**_job_of(args))
    if args.json:
        from diana.wire.client.messages import PlanResponse

        alone = planned[0].decision if len(planned) == 1 else None
        output.print_json(PlanResponse(decision=alone) if alone else PlanResponse(groups=planned))
        return 0
    from diana.cli.groups.decisions import show_decision

    for at, one in enumerate(planned):
        if at:
            print()
        if one.waits_for:
            output.say(f"{one.name}: waits for {', '.join(one.waits_for)}; planned when that is done")
        elif one.decision is not None:
            if one.name:
                output.say(f"{one.name}: {output.counted(one.jobs, 'job')}")
            show_decision(one.decision)
    return 0


COMMANDS = {
    "submit": Command(
        _submit_options,
        _submit,
        "On return the group is on disk at the node and survives any crash.",
        """
diana submit sweep.toml
diana submit --array 1-100%10 run.sh
diana submit --wait -- ./sim --t {t} --seed {seed} ::: 300 310 ::: 1 2 3
generate-jobs | diana submit --format json -
diana submit --key nightly-2026-11-21 --parsable nightly.yaml
""",
        takes_command=True,
    ),
    "plan": Command(
        _plan_options,
        _plan,
        "Exit code 3 when no site can take it.",
        """
diana plan sweep.toml
diana plan --sites alpha,beta --json sweep.toml
diana plan -- ./sim --seed {x} ::: 1 2 3
""",
        takes_command=True,
    ),
}
