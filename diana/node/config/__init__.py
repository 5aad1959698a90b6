"""The settings of a node: `site.toml` read, checked and written, and the set-up of a new site. A file and the command
line's overrides come in; out go a `SiteConfig`, a fresh data directory with keys, or one line that names file, key and
mend. A file is good as a whole or refused, so that a reload with a bad file changes nothing. Read `site_file.py` first,
then `setup.py`, the work of `diana init`."""
