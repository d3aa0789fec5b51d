"""Sensor groups of `init`: prints the groups that were found, and chooses groups for the fields."""

import click

from edge_tvbo.cli.init_prompts import Answers
from edge_tvbo.errors import Code, LinkError
from edge_tvbo.messages.formatting import counted, listed
from edge_tvbo.setup.sensor_discovery import SensorDiscovery
from edge_tvbo.setup.sensor_groups import SensorGroup, first_groups, shown

# `init` prints the first groups, up to this number. It also prints all further groups with the
# quantity of the first group, or with a quantity that the user wants.
MAX_LISTED_GROUPS = 9


class NothingFound(LinkError):
    """Error: no message on the broker was a reading of a quantity that the user wants."""

    def __init__(self, text: str) -> None:
        super().__init__(text, Code.ARGUMENT)


def list_groups(discovery: SensorDiscovery, answers: Answers) -> list[SensorGroup]:
    """Print and return the sensor groups that `init` found for the wanted quantities.

    Raises `NothingFound` if a wanted quantity has no group.
    """
    wanted = answers.quantities
    groups = [
        each
        for each in discovery.groups()
        if not wanted or any(each.measures(quantity) for quantity in wanted)
    ]
    printed: list[SensorGroup] = []
    others: list[SensorGroup] = []
    for place, group in enumerate(groups):
        is_first = place < MAX_LISTED_GROUPS or group.quantity == groups[0].quantity
        (printed if wanted or is_first else others).append(group)
    for number, group in enumerate(printed, 1):
        click.echo(f"{number:>3}  {group.describe()}")
    _name_unlisted(others)
    missing = [each for each in wanted if not any(group.measures(each) for group in groups)]
    if not groups or missing:
        raise NothingFound(_nothing_found(discovery, answers, missing))
    return printed


def _name_unlisted(groups: list[SensorGroup]) -> None:
    """Print the known quantities of the sensor groups that `init` has found but does not list."""
    known = [each.quantity.name for each in groups if each.quantity.unit]
    if known:
        click.echo(
            f"     {counted(len(known), 'more group')} of {listed(dict.fromkeys(known))}; to list"
            " all groups of a quantity, name the quantity with --quantity"
        )


def _nothing_found(discovery: SensorDiscovery, answers: Answers, missing: list[str]) -> str:
    of = f" of {', '.join(missing)}" if missing else ""
    quantities = dict.fromkeys(shown(each.quantity.name) for each in discovery.groups())
    lines = [
        f"None of the {discovery.messages} messages in {answers.seconds:g} s was a reading{of} in a"
        " format that init recognises."
    ]
    if not discovery.messages:
        lines = [
            f"No message was received in {answers.seconds:g} s: no sensor reported, or this login"
            " has no permission to read the topics of the sensors."
        ]
    if quantities:
        lines.append(f"Readings of other quantities: {listed(quantities)}.")
    if discovery.unknown:
        lines.append(f"Topics of other messages: {', '.join(map(shown, discovery.unknown))}")
    return "\n".join(
        [
            *lines,
            "Listen for longer, or name the sensors and their topic:",
            "    edge-tvbo init --sensor hall --topic 'home/{sensor}/temperature' --payload json",
        ]
    )


def groups_without_prompt(groups: list[SensorGroup], answers: Answers) -> list[SensorGroup]:
    """Return the sensor groups that `init` uses if it does not prompt; see `first_groups`.

    Also print which other quantities were found, because they do not become fields. Quantities
    without a known unit are not printed. Nothing is printed if `answers` names the wanted
    quantities.
    """
    chosen = first_groups(groups, answers.quantities)
    known = dict.fromkeys(each.quantity for each in groups if each.quantity.unit)
    others = [each.name for each in known if each not in {group.quantity for group in chosen}]
    if others and not answers.quantities:
        click.echo(
            f"Only {chosen[0].quantity.name} becomes a field. Other quantities were found:"
            f" {listed(others)}. Name each wanted quantity with --quantity.",
            err=True,
        )
    return chosen


def chosen_groups(groups: list[SensorGroup], answers: Answers) -> list[SensorGroup]:
    """Return the groups that the user of `init` chooses for the fields.

    If there is only one choice, the user is not prompted.
    """
    if len(groups) <= max(1, len(set(answers.quantities))):
        return groups
    usual = [groups.index(each) + 1 for each in first_groups(groups, answers.quantities)]

    def read(text: str) -> list[int]:
        words = text.replace(",", " ").split()
        numbers = [int(each) if each.isdecimal() else 0 for each in words]
        if not numbers or not all(0 < each <= len(groups) for each in numbers):
            raise click.BadParameter(f"{text!r} is not a list of numbers from 1 to {len(groups)}.")
        return sorted(set(numbers))

    chosen = click.prompt(
        "Numbers of the groups to use, separated by spaces; each quantity becomes a field",
        default=" ".join(map(str, usual)),
        value_proc=read,
    )
    return [groups[number - 1] for number in chosen]
