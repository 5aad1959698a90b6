"""diana: a peer-to-peer meta-scheduler for bulk work over several sites. Users submit groups of jobs through `cli` or
`client`; each site's `node` drives one `engine`, which asks `policy` for decisions, hands work to other sites and
starts jobs through `adapters`. `sim` drives the same engine under virtual time, and `trial` and `demo` drive real
nodes. Imports go one way: `engine` knows `policy` and `model`, and it knows no socket, file or clock. Read `ports.py`
first, the interfaces that a driver provides, then the package docstrings of `engine` and `node`; `errors.py` has the
errors that cross layers."""

# Nothing before this check, and nothing in this file, that Python 3.6 cannot read: one that is too old must come here.
import sys

if sys.version_info < (3, 11):  # noqa: UP036
    _told = "diana wants Python 3.11 or newer; {} is {}.{}".format(sys.executable, *sys.version_info[:2])
    # As a command: `python -m` has this word here until it has found the module. Other programs may do without diana.
    if sys.argv[:1] == ["-m"] or sys.argv[0].rpartition("/")[2] == "diana":
        sys.stderr.write("diana: " + _told + "\n")
        sys.exit(2)
    raise ImportError(_told)

# As `typing` has it: type checkers know the name, and nobody else loads the module.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from diana.reporting import report

__version__ = "0.2.0"

__all__ = ["__version__", "report"]


def __getattr__(name: str) -> object:
    # Whoever wants the version alone, such as every verb, loads nothing else.
    if name == "report":
        from diana.reporting import report as found

        return found
    raise AttributeError(f"module 'diana' has no attribute {name!r}")
