"""``edge-tvbo`` and ``python -m edge_tvbo``: the command line."""

import gc
import signal


def main() -> None:
    """Run the command line of edge-tvbo.

    While the modules are imported, Ctrl-C ends the process without a message, and garbage
    collection is off, because the import leaves nearly no garbage.
    """
    before = signal.getsignal(signal.SIGINT)
    if before is signal.default_int_handler:  # a shell may have disabled Ctrl-C
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    gc.disable()
    from edge_tvbo.cli import main as command_line

    gc.enable()
    signal.signal(signal.SIGINT, before)
    command_line()


if __name__ == "__main__":
    main()
