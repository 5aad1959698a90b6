"""Options of `snakemake --executor diana` on its command line: `--diana-NAME`."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Optional

from snakemake_interface_executor_plugins.settings import ExecutorSettingsBase

# Snakemake reads these types as they stand: no text, no `X | None`.


@dataclass
class ExecutorSettings(ExecutorSettingsBase):  # type: ignore[misc]
    data: Optional[Path] = field(  # noqa: UP045
        default=None,
        metadata={"help": "Data directory of the diana node on this machine. Default: DIANA_DATA, else ~/.diana."},
    )
    address: Optional[str] = field(  # noqa: UP045
        default=None, metadata={"help": "host:port of a diana node elsewhere, called with --diana-credential."}
    )
    credential: Optional[Path] = field(  # noqa: UP045
        default=None, metadata={"help": "Folder of a diana user's credential, for a node elsewhere."}
    )
    sites: Optional[str] = field(  # noqa: UP045
        default=None,
        metadata={
            "help": "Only these sites, separated by commas, such as those that mount the working directory; a rule's "
            "resource diana_sites comes first. Default: all sites."
        },
    )
    patience: Optional[int] = field(  # noqa: UP045
        default=300,
        metadata={"help": "Seconds without an answer of the node after which the workflow stops. Default: 300."},
    )
