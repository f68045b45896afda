"""``python -m cross_backend`` is the command line."""

from cross_backend.cli import main

raise SystemExit(main())
