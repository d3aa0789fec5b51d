"""Commands that print files for editors and shells."""

import click

from edge_tvbo.cli.output import print_json


@click.command()
def schema() -> None:
    """Print the JSON Schema of a configuration.

    Editors use the schema to complete and check a configuration while it is written.
    """
    from edge_tvbo.config.json_schema import json_schema

    print_json(json_schema())


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print a completion script for a shell.

    The script completes commands, options and their values.

    \b
    bash:  edge-tvbo completion bash > ~/.local/share/bash-completion/completions/edge-tvbo
    zsh:   edge-tvbo completion zsh > ~/.zfunc/_edge-tvbo       (with ~/.zfunc in fpath)
    fish:  edge-tvbo completion fish > ~/.config/fish/completions/edge-tvbo.fish
    """  # noqa: D301 - click needs the character itself
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None
    root = context.find_root().command
    click.echo(kind(root, {}, "edge-tvbo", "_EDGE_TVBO_COMPLETE").source())
