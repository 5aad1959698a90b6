"""The way in: finds the verb, runs it, and turns whatever goes wrong into one line and an exit code.

Nothing here imports more than the interpreter has loaded already: `diana --help` shows the table below as it is,
and a verb brings its own module.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence
from typing import NamedTuple

INTERRUPTED = 130
PIPE_CLOSED = 141


class Verb(NamedTuple):
    family: str
    module: str
    summary: str


VERBS: dict[str, Verb] = {
    "submit": Verb("Work", "groups.work", "submit a job file, a script or a command with a sweep"),
    "plan": Verb("Work", "groups.work", "show where a job would go now and why; submits nothing"),
    "status": Verb("Work", "groups.look", "groups and how far they are"),
    "wait": Verb("Work", "groups.follow", "wait for groups; the exit code is their result"),
    "results": Verb("Work", "groups.results", "how jobs ended: all of them, or those that failed"),
    "logs": Verb("Work", "groups.follow", "what jobs wrote, wherever they ran"),
    "fetch": Verb("Work", "groups.follow", "copy a group's outputs into a folder"),
    "cancel": Verb("Work", "groups.control", "cancel a group or some of its jobs"),
    "hold": Verb("Work", "groups.control", "jobs that have not started wait until released"),
    "checkpoint": Verb("Work", "groups.control", "jobs that run save their state and go on from it elsewhere"),
    "report": Verb("Work", "groups.contracts", "a job says how far it is"),
    "move": Verb("Work", "groups.control", "jobs that have not started run at another site"),
    "release": Verb("Work", "groups.control", "let held jobs start"),
    "retry": Verb("Work", "groups.control", "try failed jobs again; done ones never"),
    "drop": Verb("Work", "groups.control", "forget groups that are over, with their logs"),
    "explain": Verb("Work", "groups.look", "why a group was placed as it was"),
    "groups": Verb("Work", "groups.groups", "list groups: whose, since when, how they ended"),
    "top": Verb("Grid", "top", "sites, queues and groups on one page that lives"),
    "queue": Verb("Grid", "groups.queue", "what waits at a site, level by level, and when it starts"),
    "users": Verb("Grid", "groups.users", "each user's share of all that waits and runs, over all sites"),
    "links": Verb("Grid", "watch.links", "links between sites: round trip, throughput, forecasts and their errors"),
    "sites": Verb("Grid", "groups.look", "the sites known here, their load and their links"),
    "peers": Verb("Grid", "sites.peers", "how each site is linked, when it was last heard of; the machines here"),
    "dashboard": Verb("Grid", "watch.dashboard", "a way into this node's pages for a browser"),
    "metrics": Verb("Grid", "watch.metrics", "what a Prometheus server reads of the node, as text"),
    "datasets": Verb("Grid", "watch.datasets", "list datasets; register, show, verify or remove one"),
    "init": Verb("Node", "sites.site", "make a site and its VO, or a user's credential"),
    "invite": Verb("Node", "sites.join", "a token with which a site, machine or user joins the VO"),
    "join": Verb("Node", "sites.join", "join with a token: make a site, a machine of one, or a credential"),
    "node": Verb("Node", "sites.site", "run the node of a site, in the foreground or detached"),
    "stop": Verb("Node", "sites.site", "stop the node; running jobs run on"),
    "service": Verb("Node", "sites.service", "the node as a service of systemd: install, status, uninstall"),
    "site": Verb("Node", "sites.admin", "drain, ban, remove a machine, promote a standby"),
    "policy": Verb("Node", "sites.orders", "the VO's policy and bans: show them, set the policy"),
    "doctor": Verb("Node", "sites.doctor", "what is wrong with this site, with the mend; works without its node too"),
    "backup": Verb("Node", "sites.keep", "copy a node's state into a folder"),
    "restore": Verb("Node", "sites.keep", "make a data directory from a backup"),
    "demo": Verb("Try", "trial.trial", "five sites on this machine, 200 jobs, one histogram"),
    "simulate": Verb("Try", "trial.trial", "run a scenario on the simulator over seeds"),
    "history": Verb("Try", "past.history", "the groups submitted here and how they ran, as a log and a scenario"),
    "whatif": Verb("Try", "past.whatif", "a history replayed under changes, or beside what truly happened"),
    "advise": Verb("Try", "past.whatif", "the changes that would have helped a history most, with the orders"),
    "scenario": Verb("Try", "trial.scenario", "check scenario files, run one on real nodes, print their schema"),
    "completion": Verb("Try", "published.completion", "what lets a shell complete verbs, options and names"),
}

_FOOT = """
Exit codes: 0 done, 1 some jobs failed, 2 a mistake in what was asked, 3 no site can take it,
4 a node or site cannot be reached, 124 a wait timed out.

Examples:
  diana submit --array 1-100 --wait -- ./sim --seed {array}
  diana submit sweep.toml
  diana status
  diana VERB --help      says more about a verb
  diana help exit-codes  all exit codes; so do: diana help environment, diana help json
"""


def overview() -> str:
    lines = [
        "usage: diana VERB ...",
        "",
        "Bulk work over several sites: peers place it, move its data, bring back its results.",
    ]
    for family in dict.fromkeys(entry.family for entry in VERBS.values()):
        lines += ["", f"{family}:"]
        lines += [f"  {name:<10} {entry.summary}" for name, entry in VERBS.items() if entry.family == family]
    return "\n".join(lines) + "\n" + _FOOT


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one verb. Never raises for a user's mistake; see `_FOOT` for the exit codes."""
    words = list(sys.argv[1:] if argv is None else argv)
    # gRPC would write lines of its own to stderr for every refused handshake; what they mean, we say ourselves.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    _open_streams()
    # An account that may not enter the folders it makes could fill none.
    os.umask(os.umask(0o077) & ~0o700)
    try:
        _refuse_odd(words)
        code = _dispatch(words)
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        from diana.cli.shared.faults import hush

        # Whoever read our output has gone.
        hush()
        return PIPE_CLOSED
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else 0
    except Exception as error:
        from diana.cli.shared.faults import report

        return report(error, words)


def _open_streams() -> None:
    """A caller may have closed its output (`>&-`): then nobody wants to see it, and no socket may get its number."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_WRONLY), "w"))
    # A name that this locale cannot show is shown escaped.
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.encoding.lower() != "utf-8":
        sys.stdout.reconfigure(errors="backslashreplace")


def _refuse_odd(words: list[str]) -> None:
    """UsageError for a word that is not UTF-8: a job's texts and the names of its files travel as text."""
    for word in words:
        try:
            word.encode()
        except UnicodeEncodeError as error:
            from diana.cli.shared.faults import not_text

            raise not_text(error) from None


def _dispatch(words: list[str]) -> int:
    if not words or words[0] in ("-h", "--help") or words == ["help"]:
        sys.stdout.write(overview())
        return 0
    if words[0] == "--version":
        from diana import __version__

        sys.stdout.write(f"diana {__version__}\n")
        return 0
    if words[0] == "help":
        from diana.cli.published.topics import TOPICS

        if words[1] in TOPICS:
            sys.stdout.write(TOPICS[words[1]]())
            return 0
        words = [words[1], "--help"]
    verb, rest = words[0], words[1:]
    if verb not in VERBS:
        raise _unknown(verb)
    from importlib import import_module

    from diana.cli.shared.parsing import parse

    module = import_module(f"diana.cli.{VERBS[verb].module}")
    command = module.COMMANDS[verb]
    code: int = command.run(parse(verb, VERBS[verb].summary, command, rest))
    return code


def _unknown(verb: str) -> Exception:
    """Return the mistake of a word that is no verb."""
    from diana.cli.shared import other_words
    from diana.cli.shared.faults import nearest
    from diana.cli.sites.admin import ORDERS
    from diana.errors import UsageError

    if verb.startswith("-"):
        return UsageError(f"{verb}: options come after the verb; see diana --help")
    if verb in ORDERS:
        return UsageError(f"{verb!r} is an order of site; say: diana site {verb}")
    mend = f"did you mean {other_words.VERBS[verb]}?" if verb in other_words.VERBS else nearest(verb, list(VERBS))
    return UsageError(f"{verb!r} is no verb; {mend}")
