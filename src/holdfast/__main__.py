"""`python -m holdfast`: the command line, with the interpreter that one means."""

from holdfast.cli.main import main

if __name__ == "__main__":
    main(prog_name="python -m holdfast")
