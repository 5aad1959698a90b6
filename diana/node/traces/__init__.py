"""Traces of groups over the sites they ran at, for an OpenTelemetry collector (docs/metrics.md).

Made from what is recorded anyway, when a group is final and when a site is through with its part of one: a few spans
for each of these, none for a job. All sites of a VO derive the same ids from the same names, so that what each tells
joins in one trace and nothing travels for it.
"""
