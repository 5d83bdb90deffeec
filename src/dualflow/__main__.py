"""`python -m dualflow` is the command `dualflow`."""

from dualflow_command import main

if __name__ == "__main__":
    main()
