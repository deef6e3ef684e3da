"""`python -m shepherd` is the `shepherd` command."""

from shepherd.cli import exit_on_interrupt

if __name__ == "__main__":
    exit_on_interrupt()
    from shepherd.cli.main import run

    run()
