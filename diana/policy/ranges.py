"""Checks of a policy's settings when they are made: an error names key, value and the allowed range in one line."""

from __future__ import annotations


def check(settings: object, *ranges: tuple[str, float, float]) -> None:
    """ValueError for the first (key, least, most) whose value lies outside; NaN lies outside of every range."""
    for key, least, most in ranges:
        value = getattr(settings, key)
        if not least <= value <= most:
            raise ValueError(f"{key} = {value}: want {least:g} to {most:g}")
