"""``python -m tests.atalla.golden``: see the package."""

import sys

from tests.atalla.golden import main

main(sys.argv[1:])
