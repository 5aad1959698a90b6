"""Traces of groups over the sites they ran at, for an OpenTelemetry collector (docs/metrics.md). Effects that left the
engine come in, when a group is final and when a site is through with its part of one; a few spans go out for each of
these, none for a job. All sites of a VO derive the same ids from the same names, so that the spans of each join in one
trace and nothing travels for it. Read `watching.py` first, then `spans.py`, which makes the spans, and `sending.py`,
which sends them."""
