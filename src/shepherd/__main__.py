"""`python -m shepherd` is the `shepherd` command."""

from shepherd.cli.main import run

if __name__ == "__main__":
    run()
