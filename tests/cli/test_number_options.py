"""Options that are numbers: the errors say what was found, and what is allowed."""

import re

import click
import pytest
from click.testing import CliRunner

from edge_tvbo.cli import main


def parameters(command, path=()):
    """Yield the path of each command, and each of its options and arguments."""
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            yield from parameters(command.get_command(context, name), (*path, name))
    yield from ((path, each) for each in command.params)


NUMBERS = [
    (path, each)
    for path, each in parameters(main)
    if isinstance(each.type, click.types.FloatParamType | click.types.IntParamType)
]


def outside(kind):
    """Yield numbers outside the range of an option's type."""
    if kind.min is not None:
        yield f"{kind.min - (0 if kind.min_open else max(1, abs(kind.min) / 2)):g}"
    if kind.max is not None:
        yield f"{kind.max + (0 if kind.max_open else max(1, abs(kind.max) / 2)):g}"


def test_the_error_of_every_number_has_the_allowed_range_and_an_example():
    assert len(NUMBERS) > 20
    for path, option in NUMBERS:
        is_interval = path == ("why",)  # for a text, the error is about the name of a field
        for text in ("nan", "inf", "1.5x", "", *outside(option.type)):
            with pytest.raises(click.BadParameter) as caught:
                option.type.convert(text, option, None)
            message = caught.value.message
            if is_interval and not text.lstrip("-").isdecimal():
                continue
            assert message.startswith((f"{text} is", f"{text!r} is")), (path, message)
            found = re.fullmatch(r".* is invalid; allowed: (a .*), such as (\S+)\.", message)
            assert found, (path, option.opts, message)
            option.type.convert(found[2], option, None)
            for limit in (option.type.min, option.type.max):
                assert limit is None or f" {limit}" in found[1]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            ("compare", "--seeds", "x"),
            "'--seeds': 'x' is invalid; allowed: a whole number, at least 1, such as 8.",
        ),
        (
            ("dashboard", "--plan-width", "0"),
            "'--plan-width': 0 is invalid; allowed: a number, above 0, at most 100000, such as 12",
        ),
        (
            ("bound", "--epsilon-range", "0.5", "2"),
            "'--epsilon-range': 2 is invalid; allowed: a number, 0 to 1, such as 0.03.",
        ),
        (("export", "c", "--interval", "-3"), '"-3" is not a duration, such as "500ms", '),
        (("export", "c", "--interval", "-3"), '"1d"; allowed: more than 0s'),
        (("init", "--listen", "-3"), '"1d"; allowed: 0s or more'),
        (("check", "c", "--connect", "--listen", "x"), '"1d"; allowed: 0s or more'),
        (("fit", "--period", "1ms"), 'or a duration, 1s to 366d, such as "12h"'),
        (("replay", "--set", "epsilon=x"), "--set is 'epsilon=x': Invalid value"),
    ],
)
def test_an_invalid_number_on_the_command_line_is_answered_with_what_is_allowed(arguments, words):
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 2
    assert words in done.stderr
