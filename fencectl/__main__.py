"""`python -m fencectl`."""

from fencectl.cli import main

if __name__ == "__main__":
    main()
