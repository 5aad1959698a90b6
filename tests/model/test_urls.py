"""SPEC U8: which URLs anybody may write, which an operator allows, and that none of them carries a secret."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from diana.model.job.urls import (
    MOST_BEGINNINGS,
    beginnings,
    check_allowed,
    check_file_url,
    check_folder_url,
    check_url,
    is_allowed,
    is_url,
    may_be_allowed,
    shown,
)

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


@given(st.lists(st.sampled_from([f"https://h{h}/d{d}/f{f}" for h in range(3) for d in range(40) for f in range(4)])))
def test_another_site_is_asked_about_few_beginnings_and_none_of_the_urls_is_left_out(urls: list[str]) -> None:
    asked = beginnings(urls)
    assert len(asked) <= MOST_BEGINNINGS
    assert all(any(url == one or (one.endswith("/") and url.startswith(one)) for one in asked) for url in urls)


def test_what_is_asked_of_another_site_has_no_query_and_many_files_are_asked_by_folder_or_host() -> None:
    assert beginnings(["https://H:8/a/b?part=1", "https://h:8/a/b?part=2"]) == ("https://h:8/a/b",)
    assert beginnings([f"s3://bucket/in/part-{k}" for k in range(1000)]) == ("s3://bucket/in/",)
    assert beginnings([f"file:///in/{k}/x" for k in range(1000)]) == ("file:///",)
    assert beginnings(["no url", "https://me@host/x"]) == ()


@pytest.mark.parametrize(
    ("asked", "prefix", "may"),
    [
        ("https://host/a", "https://", True),
        ("https://host/a", "https://host/b", False),
        ("https://host/a/", "https://host/a/b", True),
        ("https://host/a/", "HTTPS://Host/a/b/", True),
        ("https://host/a/", "https://host/b/", False),
        ("https://host/", "s3://host/", False),
        ("https://host/a", "https://host/a/b", False),
    ],
)
def test_a_site_says_no_only_where_nothing_that_begins_so_is_allowed(asked: str, prefix: str, may: bool) -> None:
    assert may_be_allowed(asked, [prefix]) is may


@given(st.text(max_size=80), st.text(max_size=80))
def test_any_text_may_be_asked_about(asked: str, prefix: str) -> None:
    assert may_be_allowed(asked, [prefix]) in (True, False)
