"""Command `precompile`, which compiles the numba kernels before the daemon's first start."""

from importlib import import_module

import click

from edge_tvbo.errors import ConfigError


@click.command()
def precompile() -> None:
    """Compile the kernels before the first start.

    Kernels are the daemon's numerical functions. Without this command, the daemon compiles the
    kernels when it starts for the first time. Run this command after an installation, an upgrade,
    or a move to another processor. Run it as the daemon's user, with the daemon's NUMBA_CACHE_DIR
    and NUMBA_CPU_NAME.
    """
    from edge_tvbo.numerics.compiled import MODULES
    from edge_tvbo.numerics.jit import COMPILATION, compile_times_s, uncached_kernels

    for module in MODULES:
        import_module(f"edge_tvbo.numerics.{module}")

    if COMPILATION == "ahead of time":
        click.echo("This package contains compiled kernels: there is nothing to do.")
        return
    if uncached_kernels:
        raise ConfigError(
            "numba has no writable cache directory, or its disk is full, so the kernels cannot be "
            "stored.\n"
            "Set another directory:  NUMBA_CACHE_DIR=/var/cache/edge-tvbo edge-tvbo precompile"
        )
    done = (
        f"compiled {len(compile_times_s)} in {sum(compile_times_s):.1f} s"
        if compile_times_s
        else "nothing to do"
    )
    click.echo(f"The kernels are in numba's cache: {done}.")
