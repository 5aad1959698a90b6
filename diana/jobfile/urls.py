"""The URLs of a job file: inputs that each site reads for itself, and places that outputs are sent on to.

Here they are checked as they are written, where a template stands for something yet unknown; whether a site's operator
allows them is that site's business.
"""

from __future__ import annotations

from collections.abc import Iterable

from diana.model.job.spec import InputFile
from diana.model.job.template import GIVEN, Template
from diana.model.job.urls import check_file_url, check_folder_url

MOST_URLS = 10_000
"""Most different URLs a group may read: the size of each is asked for before the group is placed."""


def url_input(template: Template, path: str, executable: bool, key: str) -> InputFile:
    """Return an input from a URL. `path` empty: the last name of the URL. ValueError names the key."""
    if "group" in template.names:
        raise ValueError(f"{key}: {{group}} is not known when data is placed; name it otherwise")
    place = template.text.partition("://")[2].partition("/")[0]
    if "{" in place:
        raise ValueError(f"{key}: a placeholder in the host's name; write the host out, one input for each")
    sample = template.render(dict.fromkeys(template.names | GIVEN, "x"))
    try:
        check_file_url(sample)
    except ValueError as error:
        raise ValueError(f"{key}: {error}") from None
    return InputFile(source=f"url:{template.text}", path=path, executable=executable)


def default_path(text: str) -> str:
    """The last name of a URL's path, a template as it is."""
    return text.partition("?")[0].rpartition("/")[2]


def check_output_url(text: str) -> None:
    """Check a place for outputs; ValueError where no file can be put."""
    if "{" in text or "}" in text:
        raise ValueError(f"outputs.to: {text!r}: no template; the names in outputs.collect may hold placeholders")
    try:
        check_folder_url(text)
    except ValueError as error:
        raise ValueError(f"outputs.to: {error}") from None


def check_count(refs: Iterable[str]) -> None:
    """Check the number of URLs a group reads; ValueError when there are too many."""
    count = sum(ref.startswith("url:") for ref in refs)
    if count > MOST_URLS:
        raise ValueError(
            f"inputs: {count} different URLs; at most {MOST_URLS} make one group, register the files as a dataset"
            " where they lie, or submit it in pieces"
        )
