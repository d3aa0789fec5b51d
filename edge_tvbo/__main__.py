"""``edge-tvbo`` and ``python -m edge_tvbo``: the command line."""

import signal


def main() -> None:
    """Run the command line of edge-tvbo.

    While the modules are imported, Ctrl-C ends the process without a message.
    """
    before = signal.getsignal(signal.SIGINT)
    if before is signal.default_int_handler:  # otherwise, a shell may have disabled Ctrl-C
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from edge_tvbo.cli import main as command_line

    signal.signal(signal.SIGINT, before)
    command_line()


if __name__ == "__main__":
    main()
