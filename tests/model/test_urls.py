"""SPEC U8: which URLs anybody may write, which an operator allows, and that none of them carries a secret."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from diana.model.urls import check_allowed, check_file_url, check_folder_url, check_url, is_allowed, is_url, shown

GOOD = [
    "https://host/file",
    "http://127.0.0.1:8080/a/b%20c?version=2",
    "https://[::1]/x",
    "s3://bucket/some/key with blank.bin",
    "sftp://host:2222/data/x",
    "file:///data/x",
]


@pytest.mark.parametrize("text", GOOD)
def test_a_plain_url_is_good(text: str) -> None:
    assert check_file_url(text).text == text and is_url(text)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("https://me:pw@host/x", "account or password"),
        ("sftp://me@host/x", "account or password"),
        ("s3://key@bucket/x", "account or password"),
        ("https://host/x?X-Amz-Signature=abc", "looks like a secret"),
        ("https://host/x?a=1&access_token=abc", "looks like a secret"),
        ("https://host/x?sig=abc", "looks like a secret"),
        ("https://host/x?AWSAccessKeyId=abc", "looks like a secret"),
        ("ftp://host/x", "ftp:// is not understood; want one of https"),
        ("https://host/a b", "holds a blank"),
        ("https://host/a\nb", "control character"),
        ("https://host/../x", "'..' in its path"),
        ("https://host/%2e%2e/x", "'..' in its path"),
        ("https://host/x#part", "'#' cannot stand"),
        ("s3://bucket/x?versionId=1", "'?' cannot stand"),
        ("s3:///x", "names no bucket"),
        ("https:///x", "names no host"),
        ("https://host:port/x", "no URL that can be read"),
        ("file://host/x", "names no host"),
        ("https://host/folder/", "names no file"),
        ("s3://bucket", "names no file"),
        ("https://host/" + "x" * 3000, "longer than"),
    ],
)
def test_a_bad_url_is_one_line_that_shows_no_secret(text: str, said: str) -> None:
    with pytest.raises(ValueError) as refusal:
        check_file_url(text)
    line = str(refusal.value)
    assert said in line and "\n" not in line and len(line) < 400
    assert "pw" not in line and "me@" not in line and "abc" not in line


def test_only_some_kinds_take_files() -> None:
    for text in ("s3://bucket", "s3://bucket/a/", "sftp://host/out", "file:///out"):
        assert check_folder_url(text).text == text
    with pytest.raises(ValueError, match="https takes no files"):
        check_folder_url("https://host/out")


@pytest.mark.parametrize(
    ("text", "prefix", "allowed"),
    [
        ("https://host/x", "https://", True),
        ("HTTPS://host/x".lower(), "https://HOST/", True),
        ("http://host/x", "https://", False),
        ("s3://bucket/a/b", "s3://bucket/a/", True),
        ("s3://bucket/ab", "s3://bucket/a", False),
        ("s3://bucket/a", "s3://bucket/a", True),
        ("s3://bucket-2/a", "s3://bucket/", False),
        ("https://host.evil.example/x", "https://host/", False),
        ("https://host:444/x", "https://host/", False),
        ("https://host:444/x", "https://host:444/", True),
        ("file:///data/x", "file:///data/", True),
        ("file:///database/x", "file:///data", False),
    ],
)
def test_the_allow_list_matches_whole_names(text: str, prefix: str, allowed: bool) -> None:
    assert is_allowed(check_url(text), [check_allowed(prefix)]) is allowed


@pytest.mark.parametrize("prefix", ["https", "https://host", "ftp://host/", "https://me@host/", "s3://bucket"])
def test_a_prefix_that_would_match_too_much_is_refused(prefix: str) -> None:
    with pytest.raises(ValueError):
        check_allowed(prefix)


@given(st.text(max_size=80))
def test_whatever_is_shown_is_printable_and_without_account_and_query(text: str) -> None:
    line = shown(f"https://user:secret{''}@host/{text}")
    assert line.isprintable() and "user" not in line.partition("host")[0] and len(line) <= 260


@given(st.text(max_size=200), st.sampled_from(["https://", "s3://b/", "sftp://h/", "file:///", ""]))
def test_any_text_is_a_url_or_a_value_error(text: str, beginning: str) -> None:
    try:
        url = check_url(beginning + text)
    except ValueError as refusal:
        assert str(refusal).isprintable()
    else:
        assert url.path.startswith("/") and is_allowed(url, [f"{url.scheme}://"])
