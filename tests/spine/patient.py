"""The real command line, which waits long for what dies at once: a slow machine needs more than a second for that."""

import sys

from sojourn.verbs.launch import launch

launch.SETTLE_S = 60.0
from sojourn.cli.main import main  # noqa: E402

sys.exit(main())
