"""`python -m attentune` is the command line."""

from attentune.cli import main

main()
