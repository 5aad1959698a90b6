"""URLs of inputs and outputs: the valid ones, and the ones a site's operator allows.

Credentials are the executing node's own. A URL may not bring any, since it travels to other sites and stands in their
journals. Errors show a URL only through `shown`.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import NamedTuple
from urllib.parse import SplitResult, parse_qsl, unquote, urljoin, urlsplit

SCHEMES = ("https", "http", "s3", "sftp", "file")
DEFAULT_ALLOWED = ("https://", "http://")
"""Beginnings of URLs that a site reads unless its operator sets others: those anybody may read."""
WRITABLE = ("s3", "sftp", "file")
MOST_URL_BYTES = 2048
MOST_BEGINNINGS = 64
"""Beginnings of URLs that another site is asked about at once."""

_BEGINNING = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_SECRET = re.compile(
    r"x-(?:amz|goog|ms)-.*|(?:.*[-_])?(?:sig|signature|token|secret|password|passwd|credential|credentials|auth|"
    r"api[-_]?key|access[-_]?key(?:id)?)\Z|awsaccesskeyid\Z|googleaccessid\Z",
    re.IGNORECASE,
)


class Url(NamedTuple):
    """A checked URL."""

    text: str
    scheme: str
    host: str
    """Lower case, without the port; the bucket of `s3`, empty for `file`."""
    port: int
    """0: the scheme's own."""
    path: str
    """The path as written, beginning with a slash, without the query. Only http understands %20 and the like."""


def is_url(text: str) -> bool:
    """True if `text` is written as a URL, `SCHEME://...`."""
    return _BEGINNING.match(text) is not None


def check_url(text: str) -> Url:
    """Check and split a URL. ValueError, one line fit for a log, for a text that is no URL diana understands or may
    hold a secret."""
    scheme = _scheme(text)
    if len(text.encode(errors="surrogatepass")) > MOST_URL_BYTES:
        raise ValueError(f"{shown(text)}: longer than {MOST_URL_BYTES} bytes; use a shorter one")
    if not text.isprintable() or "\\" in text or (" " in text and scheme in ("http", "https")):
        raise ValueError(
            f"{shown(text)}: holds a blank, a backslash or a control character; write it as %20 and the like"
        )
    try:
        split = urlsplit(text)
        port = split.port or 0
    except ValueError:
        raise ValueError(f"{shown(text)}: no URL that can be read; mend its host or port") from None
    _no_secrets(text, split)
    if split.fragment or "#" in text:
        raise ValueError(f"{shown(text)}: '#' cannot stand in a file's URL; leave that part out")
    if scheme not in ("http", "https") and "?" in text:
        raise ValueError(f"{shown(text)}: '?' cannot stand in a URL of {scheme}; rename the file")
    host = _host(text, scheme, split)
    if ".." in unquote(split.path).split("/"):
        raise ValueError(f"{shown(text)}: '..' in its path; write the path itself")
    return Url(text, scheme, host, port, split.path or "/")


def check_file_url(text: str) -> Url:
    """Check as `check_url`; the URL must name a file, not a folder or a bucket."""
    url = check_url(text)
    if url.path.endswith("/"):
        raise ValueError(f"{shown(text)}: names no file; end it in a file's name")
    return url


def check_folder_url(text: str) -> Url:
    """Check as `check_url`; the URL must name a place that can be written."""
    url = check_url(text)
    if url.scheme not in WRITABLE:
        raise ValueError(f"{shown(text)}: {url.scheme} takes no files; want s3://, sftp:// or file://")
    return url


def redirected(url: Url, location: str) -> Url:
    """Return the URL a server redirects to. It may hold a signature, since nobody keeps it. ValueError for one that is
    not followed."""
    text = urljoin(url.text, location)
    split = urlsplit(text)
    if split.scheme not in ("http", "https") or (url.scheme, split.scheme) == ("https", "http"):
        raise ValueError(f"{shown(url.text)}: the server sends on to {shown(text)}, which is not followed")
    if "@" in split.netloc or not split.hostname or not text.isprintable():
        raise ValueError(f"{shown(url.text)}: the server sends on to an address that cannot be followed")
    return Url(text, split.scheme, split.hostname.lower(), split.port or 0, split.path or "/")


def check_allowed(text: str) -> str:
    """Check a prefix of the allow-list. ValueError shows a valid one."""
    scheme = _scheme(text)
    rest = text[len(scheme) + 3 :]
    if "@" in rest or "?" in rest or "#" in rest or not text.isprintable() or " " in text:
        raise ValueError(f"{shown(text)}: want the beginning of URLs, such as https:// or s3://bucket/folder/")
    if rest and "/" not in rest:
        raise ValueError(f'{text}: would also match longer names; end it in a slash: "{text}/"')
    return text


def is_allowed(url: Url, allowed: Sequence[str]) -> bool:
    """True if the URL begins with one of the prefixes; the last name in a prefix must match a whole name."""
    text = f"{_place(url)}{url.path}"
    return any(_begins(text, prefix) for prefix in allowed)


def beginnings(urls: Iterable[str]) -> tuple[str, ...]:
    """Return the texts that another site checks against its allow-list before jobs that read these URLs go there: the
    URLs themselves, without their queries; if too many, their folders; if still too many, their hosts. Folders and
    hosts end in a slash. Texts that are no URL are left out."""
    some = {text.partition("?")[0] for text in urls}
    if len(some) > MOST_BEGINNINGS:
        some = {text.rpartition("/")[0] + "/" for text in some}
    if len(some) > MOST_BEGINNINGS:
        some = {place_of(text) + "/" for text in some}
    out = []
    for text in sorted(some)[:MOST_BEGINNINGS]:
        with suppress(ValueError):
            url = check_url(text)
            out.append(f"{_place(url)}{url.path}")
    return tuple(dict.fromkeys(out))


def may_be_allowed(beginning: str, allowed: Sequence[str]) -> bool:
    """True if this one of `beginnings` is allowed, or if URLs that begin so may be. Any text may be given."""
    if any(_begins(beginning, prefix) for prefix in allowed):
        return True
    return beginning.endswith("/") and any(_normal(prefix).startswith(beginning) for prefix in allowed)


def _place(url: Url) -> str:
    return f"{url.scheme}://{url.host}" + (f":{url.port}" if url.port else "")


def _normal(prefix: str) -> str:
    scheme, _, rest = prefix.partition("://")
    host, slash, path = rest.partition("/")
    return f"{scheme.lower()}://{host.lower()}{slash}{path}"


def _begins(text: str, prefix: str) -> bool:
    prefix = _normal(prefix)
    if not text.startswith(prefix):
        return False
    return prefix.endswith("/") or len(text) == len(prefix) or text[len(prefix)] in "/?"


def place_of(text: str) -> str:
    """Return SCHEME://HOST of a URL; all URLs that begin so share one link."""
    scheme, _, rest = text.partition("://")
    return f"{scheme}://{rest.partition('/')[0].lower()}"


def link_name(text: str) -> str:
    """The name of the link through which jobs see what was staged from this URL."""
    return hashlib.sha256(text.encode()).hexdigest()


def shown(text: str) -> str:
    """The URL as an error or a log may show it: without account, query and odd characters, and not too long."""
    beginning = _BEGINNING.match(text)
    if beginning:
        place, slash, path = text[beginning.end() :].partition("/")
        text = beginning.group() + place.rpartition("@")[2] + slash + path
    bare = re.split(r"[?#]", text, maxsplit=1)
    text = bare[0] + ("?..." if len(bare) > 1 else "")
    text = text if len(text) <= 200 else text[:197] + "..."
    return text if text.isprintable() else ascii(text)[1:-1]


def _scheme(text: str) -> str:
    beginning = _BEGINNING.match(text)
    if not beginning:
        raise ValueError(f"{shown(text)}: no URL; want one such as https://host/file or s3://bucket/key")
    scheme = beginning[1]
    if scheme not in SCHEMES:
        raise ValueError(f"{shown(text)}: {scheme}:// is not understood; want one of {', '.join(SCHEMES)}")
    return scheme


def _no_secrets(text: str, split: SplitResult) -> None:
    if "@" in split.netloc:
        raise ValueError(
            f"{shown(text)}: holds an account or password; leave it out, each site uses credentials of its own"
        )
    for name, _ in parse_qsl(split.query, keep_blank_values=True):
        if _SECRET.match(name):
            raise ValueError(
                f"{shown(text)}: its {name!r} looks like a secret, and every site would keep it; make the file"
                " readable for the sites, or register it as a dataset"
            )


def _host(text: str, scheme: str, split: SplitResult) -> str:
    if scheme == "file":
        if split.netloc:
            raise ValueError(f"{shown(text)}: a file URL names no host; write file:///absolute/path")
        return ""
    host = (split.netloc.rpartition("@")[2] if scheme == "s3" else split.hostname) or ""
    if not host:
        raise ValueError(f"{shown(text)}: names no {'bucket' if scheme == 's3' else 'host'}")
    if scheme == "s3" and not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{1,62}", host):
        raise ValueError(f"{shown(text)}: no bucket's name; want s3://BUCKET/KEY")
    if "%" in host or "*" in host:
        raise ValueError(f"{shown(text)}: no host's name; mend it")
    return host if scheme == "s3" else host.lower()
