"""Arguments: a parser whose errors are one line, the options all verbs share, and durations as people write them."""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple, NoReturn

from diana.cli.published.topics import WIDEST
from diana.cli.shared.faults import nearest
from diana.errors import UsageError

if TYPE_CHECKING:
    from diana.client import Client


class Command(NamedTuple):
    configure: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int]
    more: str = ""
    """Text of `--help` beyond the summary."""
    examples: str = ""
    takes_command: bool = False
    """True if the words after `--` are a command of their own, in `args.command`."""


class Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        verb = self.prog.removeprefix("diana ")
        words = message.removeprefix("unrecognized arguments: ")
        if words != message:
            known = [option for action in self._actions for option in action.option_strings]
            from diana.cli.shared import other_words

            word = words.split()[0]
            mend = nearest(word, known) if word.startswith("--") else f"see diana {verb} --help"
            if other := other_words.option(verb, word):
                mend = other
            elif verb in ("submit", "plan") and (key := _key(word)):
                mend = f"write --set {key}=VALUE"
            message = f"does not take {word}; {mend.replace('diana --help', f'diana {verb} --help')}"
        else:
            message = f"{message.removeprefix('argument ')}; see diana {verb} --help"
        raise UsageError(f"{verb}: {message}")


def _key(word: str) -> str:
    """The key of a job file that an option of this name would set; empty: there is none."""
    from diana.jobfile.options import SHORT

    name = word.partition("=")[0].removeprefix("--").replace("-", "_")
    return name if word.startswith("--") and name in SHORT else ""


_EXAMPLES = "examples:"


class _Formatter(argparse.RawDescriptionHelpFormatter):
    def __init__(self, prog: str) -> None:
        import shutil

        super().__init__(prog, max_help_position=28, width=min(WIDEST, shutil.get_terminal_size().columns))

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return text if text.startswith(_EXAMPLES) else filled(text, width)


def filled(text: str, width: int) -> str:
    """Wrapped; a line that ends a sentence, or begins with a new indentation, stays the beginning of one."""
    import textwrap

    blocks: list[str] = []
    for line in text.splitlines():
        before = blocks[-1] if blocks else ""
        if before and before[-1] not in ".:" and _indent(before) == _indent(line):
            blocks[-1] = f"{before} {line.strip()}"
        else:
            blocks.append(line)
    return "\n".join(
        textwrap.fill(block, width, initial_indent="", subsequent_indent=_indent(block)) for block in blocks
    )


def _indent(text: str) -> str:
    return " " * (len(text) - len(text.lstrip()))


def parser_of(verb: str, summary: str, command: Command) -> Parser:
    parser = Parser(
        prog=f"diana {verb}",
        description=f"{summary[0].upper()}{summary[1:]}.\n{command.more}".rstrip(),
        epilog=f"{_EXAMPLES}\n{_indented(command.examples)}",
        formatter_class=_Formatter,
        allow_abbrev=False,
    )
    command.configure(parser)
    parser.add_argument("--no-color", action="store_true", help="no colours; NO_COLOR=1 in the environment does it too")
    return parser


def parse(verb: str, summary: str, command: Command, words: Sequence[str]) -> argparse.Namespace:
    parser = parser_of(verb, summary, command)
    command_words: list[str] = []
    if command.takes_command and "--" in words:
        at = words.index("--")
        words, command_words = words[:at], list(words[at + 1 :])
        if not command_words:
            raise UsageError(f"{verb}: no command after --; write one, such as -- ./sim --seed {{x}} ::: 1 2 3")
    # Options may stand between names (`datasets add --data DIR NAME PATH`); help of such a pass would lack the names.
    whole = not {"-h", "--help"}.isdisjoint(words)
    if whole:
        args = parser.parse_args(list(words))
    else:
        args, rest = parser.parse_known_intermixed_args(_with_signs(parser, words))
        if rest:
            if command.takes_command and (at := _command_at(words, args.job, rest[0])) >= 0:
                raise UsageError(f"{verb}: {behind_dashes(verb, words, at)}")
            parser.error(f"unrecognized arguments: {' '.join(rest)}")
    args.command = command_words
    if args.no_color:
        # What other libraries print on the terminal heeds it too.
        os.environ["NO_COLOR"] = "1"
    return args


def _with_signs(parser: Parser, words: Sequence[str]) -> list[str]:
    """Join expressions that begin with a minus to their options, which would take them for options:
    `--rank -site.wait_s`."""
    takes = {name for action in parser._actions if action.metavar == "EXPR" for name in action.option_strings}
    out = list[str]()
    for word in words:
        if out and out[-1] in takes and len(word) > 2 and word[0] == "-" != word[1]:
            out[-1] += f"={word}"
        else:
            out.append(word)
    return out


_MOST_TYPED = 200
"""Characters of words that are shown again."""


def _command_at(words: Sequence[str], job: str | None, foreign: str) -> int:
    """Where a command begins that lacks the `--` before it; -1: there is none. `job`: what was taken for the job file;
    `foreign`: the first word that no verb takes."""
    before = list(words[: words.index(foreign)]) if foreign in words else []
    if job is None or job not in before or (foreign.startswith("-") and not is_program(job)):
        return -1
    return len(before) - 1 - before[::-1].index(job)


def is_program(word: str) -> bool:
    """True for a word that is no file here and one that PATH leads to."""
    import shutil

    return not os.path.exists(word) and shutil.which(word) is not None


def behind_dashes(verb: str, words: Sequence[str], at: int) -> str:
    """A line that shows these words with the command, which begins at `at`, behind `--`."""
    shown = " ".join([*map(_typed, words[:at]), "--", *map(_typed, words[at:])])
    if len(shown) > _MOST_TYPED:
        shown = "-- COMMAND"
    return f"a command stands behind --: diana {verb} {shown}"


def _typed(word: str) -> str:
    """The word as a shell takes it; braces of a placeholder need no quotes."""
    import shlex

    return word if re.fullmatch(r"[\w@%+=:./-]*\{\w*\}[\w@%+=:./-]*", word) else shlex.quote(word)


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.strip().splitlines())


def add_json(parser: argparse.ArgumentParser, shape: str) -> None:
    """`shape` names the message of client.proto that is printed, or the keys."""
    parser.add_argument("--json", action="store_true", help=f"print JSON ({shape})")


def add_data(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data", metavar="DIR", help="the node's data directory (default: DIANA_DATA, else ~/.diana)")


def add_gpus(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--gpus",
        type=_gpus,
        metavar="N",
        help="GPUs of this machine, each for one job at a time; auto: those it shows now (default: 0)",
    )


def add_node(parser: argparse.ArgumentParser) -> None:
    """Add the options that name the node to talk to."""
    group = parser.add_argument_group("the node")
    group.add_argument("--data", metavar="DIR", help="its data directory here (default: DIANA_DATA, else ~/.diana)")
    group.add_argument("--address", metavar="HOST:PORT", help="a node elsewhere, over TLS; wants --credential")
    group.add_argument(
        "--credential", metavar="DIR", help="a user's credential: the folder diana join made of a user's invitation"
    )


def client(args: argparse.Namespace) -> Client:
    from diana.client import Client

    if args.data and (args.address or args.credential):
        raise UsageError("--data names a node on this machine, --address and --credential one elsewhere; give either")
    return Client(data=args.data, address=args.address, credential=args.credential)


def node_given(args: argparse.Namespace) -> str:
    """The options that name the node, as they were given, for a command that is printed to be copied; a space before
    each."""
    import shlex

    given = ((name, getattr(args, name, None)) for name in ("data", "address", "credential"))
    return "".join(f" --{name} {shlex.quote(value)}" for name, value in given if value)


def duration_s(text: str) -> float:
    """All that a job file takes (`90`, `90s`, `15m`, `1h30m`, `1:30:00`) in seconds, above 0."""
    from diana.jobfile import units

    try:
        seconds = units.duration_s(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    if not seconds:
        raise argparse.ArgumentTypeError(f"{text!r} is no time; write more than 0, such as 90s, 15m or 1h30m")
    return seconds


def _gpus(text: str) -> int | Literal["auto"]:
    if text == "auto":
        return "auto"
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is no number of GPUs; write how many, or auto")
    return int(text)


def at_least(low: int) -> Callable[[str], int]:
    def convert(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = low - 1
        if value < low:
            raise argparse.ArgumentTypeError(f"{text!r} is no whole number of at least {low}")
        return value

    return convert
