"""`python -m mostfw.cli`, for where the command is not on the path."""

from . import main

raise SystemExit(main())
