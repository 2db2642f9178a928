"""`python -m fencectl`."""

import sys

from fencectl.cli import main

if __name__ == "__main__":
    sys.exit(main())
