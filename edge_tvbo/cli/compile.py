"""The compiled kernels, before anybody waits for them."""

from importlib import import_module

import click

from edge_tvbo.errors import ConfigError


@click.command()
def warm() -> None:
    """Compile what the daemon will run, so that its first start is as quick as the next.

    As the user who runs it, with the same NUMBA_CACHE_DIR and NUMBA_CPU_NAME; after an
    installation, an upgrade, or a move to another processor.
    """
    from edge_tvbo.numerics.compiled import MODULES
    from edge_tvbo.numerics.jit import COMPILATION, compile_times_s, uncached_kernels

    for module in MODULES:
        import_module(f"edge_tvbo.numerics.{module}")

    if COMPILATION == "ahead of time":
        click.echo("A gateway's kernels came compiled: there is nothing to warm.")
        return
    if uncached_kernels:
        raise ConfigError(
            "No folder for numba's cache can be written, so nothing can be kept.\n"
            "Name one that can:  NUMBA_CACHE_DIR=/var/cache/edge-tvbo edge-tvbo warm"
        )
    done = (
        f"compiled {len(compile_times_s)} in {sum(compile_times_s):.1f} s"
        if compile_times_s
        else "nothing to do"
    )
    click.echo(f"The kernels are in numba's cache: {done}.")
