"""``python -m excora.cli``."""

from excora.cli import main

main()
