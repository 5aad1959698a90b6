"""`python -m diana.cli`: the same as the `diana` command, wherever that is not installed."""

from __future__ import annotations

import sys

from diana.cli.main import main

sys.exit(main())
