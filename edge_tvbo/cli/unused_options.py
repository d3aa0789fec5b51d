"""Unused options: warnings of `replay` and `compare` about options that have no effect."""

from collections.abc import Collection, Iterator

import click

from edge_tvbo.cli.options import given_options


def warn_of_unused_options(policies: Collection[str]) -> None:
    """Print a warning for each given option that has no effect with the other options.

    `policies` contains the names of the policies that the user has chosen. As in a configuration,
    an option without effect is not an error.
    """
    for name, reason in _unused(policies):
        for option in given_options(name):
            click.echo(f"warning: {option} has no effect, because {reason}", err=True)


def _unused(policies: Collection[str]) -> Iterator[tuple[str, str]]:
    """Yield each option of the replay that has no effect, with the reason.

    An option is yielded even if the user has not given it.
    """
    from edge_tvbo.policy.baseline_settings import BASELINES
    from edge_tvbo.policy.registry import settings_class

    given = click.get_current_context().params
    if given["per_interval"] == 1:
        reason = "only one sensor is activated in each interval; add --per-interval 2"
        yield "next_activation", reason
    if given.get("via") == "process":
        for option in ("host", "port", "speed"):
            yield option, "the replay uses no broker; add --via mqtt"
    if not given_options("dataset") and given["config"] is None:
        reason = f"the dataset {given['dataset']} has no files; name another one with --dataset"
        yield "data_dir", reason
    if all(issubclass(settings_class(name), BASELINES) for name in policies):
        yield "noise", "no replayed policy uses this option"
