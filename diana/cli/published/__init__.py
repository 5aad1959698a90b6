"""Documents that are made from the command line itself: the reference of all verbs, the JSON Schema of their output,
and completion scripts for shells. The table of verbs, their parsers and the types they print come in; `docs/cli.md`,
`docs/json-output.schema.json` and scripts go out, and tests keep the published ones current. The topics of `diana help`
stand here too, for page and terminal alike. Read `reference.py` first."""
