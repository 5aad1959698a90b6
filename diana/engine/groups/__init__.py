"""The life of a user's group at its origin, before its first placement and after its last result. Submissions come in,
of one group or of a chain of groups, and are refused, recognised as sent before, or accepted durably; `placement` takes
them from there. A group whose jobs have all ended is merged once, its outputs become a dataset if the spec says so, and
it is closed. A retry opens it again for the jobs that ended otherwise than done. Read `submit.py` first, then
`completion.py`."""
