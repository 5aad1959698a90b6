"""`diana completion SHELL`: the script with which a shell completes verbs, options, and names of groups and sites."""

from __future__ import annotations

import argparse
import re
import signal
from collections.abc import Iterable
from importlib import import_module

from diana.cli.main import VERBS
from diana.cli.published.topics import TOPICS
from diana.cli.shared.parsing import Command, Parser, add_node, client, parser_of
from diana.errors import DianaError

SHELLS = ("bash", "zsh", "tcsh")
NAMES = ("groups", "sites")
MOST_NAMES = 200
"""Names offered, open groups first, then the newest: a user who wants an older one knows its number."""
PATIENCE_S = 1.0
"""Seconds for the node's answer: a shell waits while it completes."""
_PLAIN = re.compile(r"[a-z0-9][a-z0-9-]*\Z")
"""Shells expand what they are given to choose from; nothing else may be among it, whatever a node says."""

_ONE_OF_MANY = re.compile(r'^\s+"\(\*\)::?', re.MULTILINE)
"""The form in which shtab writes an argument of which there may be several: zsh takes it for one that ends them."""

_BY_METAVAR = {
    "GROUP": "groups",
    "GROUPS": "groups",
    "JOB": "groups",
    "TARGET": "groups",
    "SITE": "sites",
    "FILE": "files",
    "PATH": "files",
    "DIR": "folders",
    "FOLDER": "folders",
}

_BASH = r"""
_diana_names() {
  local at node=()
  for ((at = 1; at < COMP_CWORD; at++)); do
    case ${COMP_WORDS[at]} in --data|--credential) node+=("${COMP_WORDS[at]}" "${COMP_WORDS[at + 1]}") ;; esac
  done
  compgen -W "$("${COMP_WORDS[0]/#\~/$HOME}" completion "$1" "${node[@]}" 2>/dev/null)" -- "$2"
}
_diana_groups() { _diana_names groups "$1"; }
_diana_sites() { _diana_names sites "$1"; }
"""
_ZSH = r"""
_diana_names() {
  local what=$1 at
  local -a node names
  shift
  for ((at = 1; at < CURRENT; at++)); do
    case ${words[at]} in --data|--credential) node+=(${words[at]} ${~${(Q)words[at + 1]}}) ;; esac
  done
  names=(${(f)"$(${~${(Q)_comp_command1}} completion $what $node 2>/dev/null)"})
  compadd "$@" -a names
}
_diana_groups() { _diana_names groups "$@" }
_diana_sites() { _diana_names sites "$@" }
"""


_PREAMBLE = {"bash": _BASH, "zsh": _ZSH}


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "what",
        choices=(*SHELLS, *NAMES),
        metavar="SHELL",
        help=f"{', '.join(SHELLS)}: its script; {' or '.join(NAMES)}: the names that script asks for, one per line",
    )
    add_node(parser)


def _completion(args: argparse.Namespace) -> int:
    if args.what in NAMES:
        for name in _names(args):
            print(name)
        return 0
    print(script(args.what), end="")
    return 0


def _names(args: argparse.Namespace) -> list[str]:
    """None where no node answers in time: a shell shows nothing then."""

    def give_up(*signalled: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, PATIENCE_S)
    try:
        with client(args) as node:
            if args.what == "sites":
                return plain(site.site for site in node.sites())
            return plain(group.group for group in node.groups(limit=MOST_NAMES).groups)
    except (DianaError, TimeoutError):
        return []
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def plain(names: Iterable[str]) -> list[str]:
    return [name for name in names if _PLAIN.match(name)]


def script(shell: str) -> str:
    import shtab

    made: str = shtab.complete(whole(), shell, preamble=_PREAMBLE.get(shell, ""))
    if shell == "zsh":
        made = _ONE_OF_MANY.sub('  "*:', made)
    return made if made.endswith("\n") else made + "\n"


def whole() -> argparse.ArgumentParser:
    """All verbs in one parser, for what looks at them from outside; `main` parses with one verb's alone."""
    root = Parser(prog="diana", description="Bulk work over several sites.", allow_abbrev=False)
    verbs = root.add_subparsers(dest="verb", parser_class=argparse.ArgumentParser)
    for name, entry in VERBS.items():
        command = import_module(f"diana.cli.{entry.module}").COMMANDS[name]
        source = parser_of(name, entry.summary, command)
        # zsh shows the description beside the verb, in what is left of the line.
        verb = verbs.add_parser(name, help=entry.summary, description=entry.summary, parents=[source], add_help=False)
        for action in verb._actions:
            _complete_by_metavar(action)
    more = "what holds for all verbs, or says more about one"
    told = verbs.add_parser("help", help=more, description=more, add_help=False)
    told.add_argument("topic", nargs="?", choices=(*TOPICS, *VERBS))
    return root


def _complete_by_metavar(action: argparse.Action) -> None:
    import shtab

    ways = {
        "groups": {"bash": "_diana_groups", "zsh": "_diana_groups", "tcsh": "`diana completion groups`"},
        "sites": {"bash": "_diana_sites", "zsh": "_diana_sites", "tcsh": "`diana completion sites`"},
        "files": shtab.FILE,
        "folders": shtab.DIRECTORY,
    }
    wanted = _BY_METAVAR.get(action.metavar) if isinstance(action.metavar, str) else None
    if wanted is not None:
        action.complete = ways[wanted]  # type: ignore[attr-defined]


COMMANDS = {
    "completion": Command(
        _options,
        _completion,
        "bash: put the script where it is read at login, or into ~/.local/share/bash-completion/completions/diana.\n"
        "zsh: as _diana into a folder of $fpath. tcsh: source it in ~/.tcshrc. Names of groups and sites are asked of\n"
        "the node while one types; where none answers within a second there are none.",
        """
diana completion bash > ~/.diana-completion.bash
diana completion zsh > ~/.zfunc/_diana
diana completion tcsh > ~/.diana-completion.tcsh
diana completion groups --data /srv/beta
""",
    ),
}
