"""`python -m diana`: the same as the `diana` command."""

from __future__ import annotations

import sys

from diana.cli.main import main

sys.exit(main())
