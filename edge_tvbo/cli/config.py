"""Commands `config`: describe the settings of a configuration."""

import click


@click.group()
def config() -> None:
    """Describe the settings of a configuration."""


@config.command("explain")
def config_explain() -> None:
    """Print all settings with their defaults.

    The command also prints the allowed values of each setting, and the parameters of each policy.
    """
    from edge_tvbo.config.docs import explain

    click.echo(explain())
