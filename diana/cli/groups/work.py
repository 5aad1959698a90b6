"""Verbs that bring work: submit, plan."""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from diana.cli.shared import output
from diana.cli.shared.faults import complain
from diana.cli.shared.parsing import (
    Command,
    add_json,
    add_node,
    at_least,
    behind_dashes,
    client,
    duration_s,
    is_program,
    node_given,
)
from diana.errors import Unplaceable, UsageError, quoted

if TYPE_CHECKING:
    from diana.wire.client.messages import SubmitResponse

ROLLS = 8
"""Times that a look ahead plays each way, unless it is told otherwise."""
MOST_ENVIRONMENT = 128 << 10
"""Characters of names and values that travel with a group."""
_OURS = re.compile(r"(DIANA|SLURM|PBS|SGE)_|(PWD|OLDPWD|SHLVL|TMPDIR|_|BASH_FUNC.*)$")
"""Variables that mean something else where the job runs."""
OPTIONS = (
    "name",
    "after",
    "array",
    "max_parallel",
    "retries",
    "notify",
    "components",
    "flexible",
    "runner",
    "cpus",
    "memory",
    "gpus",
    "time",
    "sites",
    "not_sites",
    "rank",
    "container",
    "modules",
    "mpi",
    "collect",
    "to",
    "log_limit",
    "grace",
    "on_crash",
    "on_site_lost",
    "preemptible",
)
"""Command-line options that travel under the job file's names and go over what stands there."""


class _Listed(argparse.Action):
    """An option of several names with commas between; given again, it has those too."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, option_string: Any = None
    ) -> None:
        if not values.strip(" ,"):
            parser.error(f"{option_string} {values!r}: names nothing; name something or leave it out")
        before = getattr(namespace, self.dest)
        setattr(namespace, self.dest, values if before is self.default else f"{before},{values}")


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
    over.add_argument(
        "--after", action=_Listed, metavar="GROUPS", help="start when these groups are done: alpha-12,alpha-13"
    )
    over.add_argument("--array", metavar="RANGE", help="1-100, 0-99:3 or 1,5,9; %%N behind it: at most N at once")
    over.add_argument("--max-parallel", type=at_least(1), metavar="N", help="at most N jobs at once")
    over.add_argument(
        "--retries",
        metavar="N",
        help="try jobs that failed again, so often, once the others have ended; or by how they failed:"
        " out_of_memory=2,factor=2,timed_out=1,failed=1,pause=30s",
    )
    over.add_argument(
        "--notify",
        action=_Listed,
        metavar="WHOM",
        default=os.environ.get("DIANA_NOTIFY") or None,
        help="told when it is over: https://HOST/PATH or mail:NAME@HOST, several by commas (default: DIANA_NOTIFY)",
    )
    over.add_argument("--cpus", metavar="N", help="processors per job")
    over.add_argument("--components", metavar="KxN", help="each job is K components of N processors, at one time")
    over.add_argument("--flexible", metavar="N", help="each job is N processors in components of any size")
    over.add_argument(
        "--runner",
        metavar="NAME",
        help="how the components of a job meet: env (by variables, the default), mpi (as one MPI job), none (not at"
        " all), or a runner that the sites have installed",
    )
    over.add_argument("--memory", metavar="SIZE", help="per job: 500M, 8G")
    over.add_argument("--gpus", metavar="N", help="GPUs per job, which it has for itself")
    over.add_argument("--time", metavar="TIME", help="limit per job: 90s, 30m, 2h; a number alone: seconds")
    over.add_argument("--sites", action=_Listed, metavar="A,B", help="only these sites")
    over.add_argument("--not-sites", action=_Listed, metavar="A,B", help="not these sites")
    over.add_argument(
        "--require",
        action="append",
        metavar="EXPR",
        help="sites must meet it too; may be repeated: 'site.memory_bytes >= 8e9'",
    )
    over.add_argument(
        "--require-link",
        action="append",
        metavar="EXPR",
        help="the link to each of its sites must meet it too; may be repeated: 'link.rtt_s < 0.05'",
    )
    over.add_argument(
        "--require-set",
        action="append",
        metavar="EXPR",
        help="all its sites together must meet it too; may be repeated: 'size(set) <= 2'",
    )
    over.add_argument("--rank", metavar="EXPR", help="sites where it is highest come first: site.speed")
    over.add_argument("--container", metavar="IMAGE", help="the image each job runs in")
    over.add_argument("--modules", action=_Listed, metavar="A,B", help="what the sites make ready before each job")
    over.add_argument(
        "--mpi", action="store_const", const="true", help="start each job once per processor, as one MPI job"
    )
    over.add_argument(
        "--input",
        action="append",
        nargs="+",
        default=[],
        metavar="FILE",
        help="files that each job finds in its directory; also URLs and dataset:NAME",
    )
    over.add_argument(
        "--env",
        action="append",
        default=[],
        metavar="NAME=TEXT",
        help="a variable of each job, the text as it stands; NAME alone: as it is here",
    )
    over.add_argument(
        "--export", metavar="ALL|NONE|NAMES", help="variables of this shell that each job has (default: NONE)"
    )
    over.add_argument(
        "--collect",
        action=_Listed,
        metavar="A,B",
        help="outputs to bring back, below the job's directory: files, patterns ('*.csv'), folders (plots/); may be"
        " repeated",
    )
    over.add_argument("--to", metavar="DIR", help="where the node gathers the outputs")
    over.add_argument(
        "--cwd", metavar="DIR", help="begin in this folder, which is the same at the sites; without inputs and outputs"
    )
    over.add_argument(
        "--log-limit", metavar="SIZE", help="log kept per job, half of its beginning, half of its end: 64K, 10M"
    )
    over.add_argument(
        "--grace", metavar="TIME", help="between SIGTERM and SIGKILL of a cancelled or late job: 90s, 5m (default: 5s)"
    )
    over.add_argument("--on-crash", choices=("hold", "rerun"), help="what becomes of a job whose machine crashed")
    over.add_argument("--on-site-lost", choices=("hold", "rerun"), help="what becomes of jobs at a site that is lost")
    over.add_argument(
        "--preemptible", action="store_const", const="true", help="running jobs may be ended for a gang, and run anew"
    )
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
    options |= _environment(args)
    if args.input:
        # A job file's own paths are relative to it, those of the command line to where that is given.
        files = [name if _is_elsewhere(name) else os.path.abspath(name) for some in args.input for name in some]
        if (carried := _carried(args)) is not None:
            # The program is among the files already; `--input * -- ./fit` names it again.
            files = [name for name in files if name != os.path.abspath(carried)]
        if odd := next((name for name in files if "\n" in name), None):
            raise UsageError(f"--input {odd!r}: a name of several lines; rename the file")
        if files:
            options["input"] = "\n".join(name.translate(_BRACES) if os.path.exists(name) else name for name in files)
    for pair in args.set:
        key, equals, value = pair.partition("=")
        if not key or not equals:
            raise UsageError(f"--set {pair}: wants KEY=VALUE, such as resources.work=60")
        options[key] = value
    for name in ("require", "require-link", "require-set"):
        if texts := getattr(args, name.replace("-", "_")):
            if not all(text.strip() for text in texts):
                raise UsageError(f"--{name}: it is empty; write a comparison, or leave it out")
            options[name] = "\n".join(texts)
    if args.to is not None:
        # The node's working directory is not the user's.
        options["to"] = os.path.abspath(args.to)
    if args.cwd is not None:
        options["cwd"] = os.path.abspath(args.cwd)
    if args.no_check_command:
        options["check_command"] = False
    content = _content(args)
    if args.command and args.collect is not None:
        from diana.jobfile.commandline import by_number

        options["collect"] = by_number(args.collect, content["job"])
    return {**content, "options": options}


def _is_elsewhere(name: str) -> bool:
    """True if an input is a URL or a dataset."""
    return re.match(r"[a-z][a-z0-9+.-]*:", name) is not None and not os.path.exists(name)


_BRACES = str.maketrans({"{": "{{", "}": "}}"})
"""Texts and names of files that are no templates, as a template has them."""


def _environment(args: argparse.Namespace) -> dict[str, object]:
    """Variables of each job, by options; their values are no templates."""
    taken: dict[str, str] = {}
    for word in (args.export or "").split(","):
        if word == "ALL":
            taken |= {name: text for name, text in os.environ.items() if not _OURS.match(name)}
        elif word not in ("", "NONE"):
            name, equals, text = word.partition("=")
            taken[name] = text if equals else _here(name, f"--export {word}")
    for pair in args.env:
        name, equals, text = pair.partition("=")
        taken[name] = text if equals else _here(name, f"--env {pair}")
    if odd := next((name for name, text in taken.items() if not _is_utf8(name + text)), None):
        raise UsageError(
            f"variable {quoted(odd)}: {quoted(taken[odd][:60])} is not UTF-8; set it anew, or name the others alone"
        )
    if (size := sum(len(name) + len(text) for name, text in taken.items())) > MOST_ENVIRONMENT:
        raise UsageError(
            f"{size:,} characters of environment, at most {MOST_ENVIRONMENT:,}; name those that are needed"
        )
    return {f"group.environment.{name}": text.translate(_BRACES) for name, text in taken.items()}


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _here(name: str, given: str) -> str:
    if not name or name not in os.environ:
        raise UsageError(f"{given}: no such variable here; write NAME=TEXT")
    return os.environ[name]


def _content(args: argparse.Namespace) -> dict[str, Any]:
    verb = "submit" if hasattr(args, "wait") else "plan"
    if args.command:
        if args.job is not None:
            raise UsageError(f"a job file ({args.job}) and a command after --; give either")
        if not args.no_check_command and any(map(str.isspace, args.command[0])):
            from diana.jobfile.check import shell_line

            # Before its placeholders have other names.
            if line := shell_line(args.command[0], os.environ.get("PATH", os.defpath)):
                raise UsageError(line)
        if not args.input and not args.no_check_command and _is_lacking(args):
            raise UsageError(f"command {args.command[0]}: no such file here; mend its name, or name it with --input")
        return {"job": _job_of_command(args.command, _carried(args)), "format": "json"}
    if args.job is None and args.input:
        taken = args.input[-1]
        if at := next((at for at, word in enumerate(taken) if is_program(word)), 0):
            raise UsageError(behind_dashes("submit", ["--input", *taken], at + 1))
        raise UsageError("--input: takes all words up to the next option as files; name the job file before it")
    if args.job is None:
        raise UsageError("nothing to submit; name a job file, a script, or a command after --")
    if args.job != "-" and is_program(args.job):
        raise UsageError(f"{args.job}: no such file here; {behind_dashes(verb, [args.job], 0)}")
    if args.job != "-":
        return {"job": args.job, "format": args.format}
    from diana.bounds import MOST_JOB_FILE_BYTES

    content = sys.stdin.buffer.read(MOST_JOB_FILE_BYTES + 1)
    if len(content) > MOST_JOB_FILE_BYTES:
        raise UsageError(f"standard input: more than {MOST_JOB_FILE_BYTES >> 20} MiB; submit it in pieces")
    if not content.strip():
        raise UsageError("standard input: empty; pipe a job file into it")
    return {"job": content, "format": args.format or guessed_format(content)}


def _carried(args: argparse.Namespace) -> str | None:
    """The program of a command that is one of the user's own: named by a relative path, it travels with the group as an
    input, unless its jobs begin in a folder where it is."""
    program = args.command[0] if args.command and args.cwd is None else ""
    return program if _is_relative(program) and os.path.isfile(program) else None


def _is_lacking(args: argparse.Namespace) -> bool:
    program = args.command[0]
    return args.cwd is None and not args.container and _is_relative(program) and not os.path.exists(program)


def _is_relative(program: str) -> bool:
    return "/" in program and not program.startswith("/") and "{" not in program


def _job_of_command(words: list[str], carried: str | None = None) -> dict[str, object]:
    from diana.jobfile.commandline import from_words

    try:
        job = from_words(words, lambda line: complain(f"command: {line}"))
    except ValueError as error:
        raise UsageError(f"command: {error}") from None
    if carried is not None:
        path = os.path.basename(carried)
        group = job["group"]
        assert isinstance(group, dict)
        group["command"] = [f"./{path}", *group["command"][1:]]
        job["inputs"] = [{"url": carried, "path": path}]
    return job


def _left_here(args: argparse.Namespace, job: dict[str, Any]) -> Iterator[str]:
    """Yield a note on files that the command takes for its jobs' and that stay here."""
    if args.command and not args.no_check_command:
        from diana.cli.groups.left_here import note

        if line := note(job["job"], job["options"]):
            yield line


def guessed_format(content: bytes) -> str:
    """Format of a job file that came without a name, by its first line that says something."""
    from diana.client.steps import begins_as_script

    if begins_as_script(content):
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
        job = _job_of(args)
        accepted = node.submit(key=args.key, **job)
        for note in [*accepted.notes, *_left_here(args, job)]:
            complain(note)
        if args.wait:
            from diana.cli.groups.follow import follow_all

            if not args.json:
                _show_accepted(accepted, args.parsable)
            names = [group.group for group in accepted.groups]
            given = node_given(args)
            return follow_all(
                node, names, args.timeout, as_json=args.json, quiet=args.parsable, given=given, heard=True
            )
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
        jobs = f"{'up to ' if one.at_most else ''}{output.counted(one.jobs, 'job')} accepted"
        after = f", waits for {', '.join(one.after)}" if one.after else ""
        name = f" {one.name}:" if len(accepted.groups) > 1 else ""
        output.say(f"{one.group}:{name} {jobs}{after}", flush=True)


def _plan_options(parser: argparse.ArgumentParser) -> None:
    _add_job(parser)
    parser.add_argument(
        "--look-ahead", action="store_true", help="play each way to place it forward, and say what comes out"
    )
    parser.add_argument(
        "--rolls",
        type=at_least(1),
        default=ROLLS,
        metavar="N",
        help=f"with --look-ahead: play each N times (default: {ROLLS})",
    )
    add_json(parser, "PlanResponse")
    add_node(parser)


def _plan(args: argparse.Namespace) -> int:
    if args.look_ahead and args.json:
        raise UsageError("--look-ahead: tells people what comes out, and has no JSON; leave one of the two out")
    with client(args) as node:
        job = _job_of(args)
        try:
            planned = node.planned(**job)
        except Unplaceable as refused:
            _show_refused(refused, as_json=args.json)
            raise
        home = next((site.site for site in node.sites() if site.home), "") if args.look_ahead else ""
    for note in [*planned.notes, *_left_here(args, job)]:
        complain(note)
    from diana.wire.client.messages import PlannedGroup

    groups = planned.groups or (PlannedGroup(decision=planned.decision),)
    if args.look_ahead and len(groups) > 1:
        raise UsageError(f"--look-ahead: plays one group, and the file holds {len(groups)}; plan them one by one")
    if args.json:
        output.print_json(planned)
        return 0
    from diana.cli.groups.decisions import show_decision

    lookout = None
    if args.look_ahead and groups[0].decision is not None:
        from diana.cli.groups.ahead import lookout_of, show_outlook

        # What cannot be played is refused before anything is said.
        lookout = lookout_of(groups[0].decision, home)
    for at, one in enumerate(groups):
        if at:
            print()
        if one.waits_for:
            output.say(f"{one.name}: waits for {', '.join(one.waits_for)}; planned when that is done")
        elif one.decision is not None:
            if one.name:
                output.say(f"{one.name}: {output.counted(one.jobs, 'job')}")
            show_decision(one.decision)
            if lookout is not None:
                show_outlook(lookout, args.rolls)
    return 0


def _show_refused(refused: Unplaceable, *, as_json: bool) -> None:
    """Tell of each site what it lacks; the error line follows."""
    from diana.wire.client.messages import PlanResponse

    planned = refused.planned
    if not isinstance(planned, PlanResponse):
        return
    if as_json:
        output.print_json(planned)
        return
    from diana.cli.groups.conditions import show_conditions
    from diana.wire.client.messages import PlannedGroup

    for one in planned.groups or (PlannedGroup(decision=planned.decision),):
        if one.decision is None or not one.decision.refused:
            continue
        if one.name:
            output.say(f"{one.name}: {output.counted(one.jobs, 'job')}: {one.decision.refused}")
        if one.decision.requirements is not None:
            show_conditions(one.decision.requirements, refused=True)


COMMANDS = {
    "submit": Command(
        _submit_options,
        _submit,
        "On return the group is on disk at the node and survives any crash.",
        """
diana submit sweep.toml
diana submit --array 1-100%10 run.sh
diana submit --wait -- ./sim --t {t} --seed {seed} ::: 300 310 ::: 1 2 3
diana submit -- ./sim {name} {seed} ::: a b :::+ 17 42
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
diana plan --look-ahead sweep.toml
diana plan -- ./sim --seed {x} ::: 1 2 3
""",
        takes_command=True,
    ),
}
