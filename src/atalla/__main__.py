"""``python -m atalla``."""

import sys

from atalla.cli import main

sys.exit(main())
