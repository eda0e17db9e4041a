"""`python -m keyveil`: the command, where its script is not on the path."""

from keyveil.cli import main

if __name__ == "__main__":
    main()
