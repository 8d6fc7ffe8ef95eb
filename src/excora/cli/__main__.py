"""``python -m excora.cli``."""

from excora.cli import main

if __name__ == "__main__":
    main()
