"""Durations as people read them: one form for a decision's sentence, kept as a record, and for what the verbs print."""

from __future__ import annotations


def seconds(value_s: float | None) -> str:
    """`0.250 s`, `12.3 s`, `3m05s`, `2h03m`, `4d02h`; `0 s` below half a millisecond; `-` for what is not known, which
    is None, negative, NaN or infinite."""
    if value_s is None or not 0 <= value_s < float("inf"):
        return "-"
    if value_s < 0.9995:
        return "0 s" if value_s < 0.0005 else f"{value_s:.3f} s"
    if value_s < 59.95:
        return f"{value_s:.1f} s"
    whole = round(value_s)
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02}s"
    if whole < 86400:
        return f"{whole // 3600}h{whole % 3600 // 60:02}m"
    return f"{whole // 86400}d{whole % 86400 // 3600:02}h"


def between(low_s: float, high_s: float) -> str:
    """`2.0-9.1 s`, `58.2 s to 2m05s`; empty where both read the same, or nothing is known."""
    if not 0 <= low_s <= high_s or not 0 < high_s < float("inf"):
        return ""
    low, high = seconds(low_s), seconds(high_s)
    if low == high:
        return ""
    if high.endswith(" s"):
        return f"{low.removesuffix(' s')}-{high}"
    return f"{low}{' to ' if low.endswith(' s') else '-'}{high}"
