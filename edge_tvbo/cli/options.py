"""Options that several commands share, and functions that process the values of options."""

import os
import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from math import isfinite
from pathlib import Path
from typing import Annotated, Any

import click

from edge_tvbo.config.field_types import duration_text, host, seconds
from edge_tvbo.errors import ConfigError

Option = Callable[[Callable[..., None]], Callable[..., None]]


class NumberRange(click.FloatRange):
    """Type of an option that is a number in a range; NaN and infinite numbers are rejected."""

    def __init__(
        self,
        low: float | None = None,
        high: float | None = None,
        *,
        example: float,
        min_open: bool = False,
        max_open: bool = False,
    ) -> None:
        super().__init__(low, high, min_open=min_open, max_open=max_open)
        self.example = example  # a valid number, for error texts

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Return the option's number; fail if the number is infinite, NaN or out of range."""
        with suppress(click.BadParameter):
            number = float(super().convert(value, param, ctx))
            if isfinite(number):
                return number
        raise click.BadParameter(_invalid_number(value, float, self), ctx, param)


class WholeNumberRange(click.IntRange):
    """Type of an option that is a whole number in a range."""

    def __init__(self, low: int | None = None, high: int | None = None, *, example: int) -> None:
        super().__init__(low, high)
        self.example = example  # a valid number, for error texts

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the option's number; fail if it is no whole number, or out of range."""
        with suppress(click.BadParameter):
            return int(super().convert(value, param, ctx))
        raise click.BadParameter(_invalid_number(value, int, self), ctx, param)


class HostType(click.types.StringParamType):
    """Type of an option that is a host name or an IP address."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the host unchanged, or fail; the error text leaves out a password in a URL."""
        try:
            return host(value)
        except ValueError as error:
            hint = f" ({error})" if str(error) else ""
            text = f"the host is invalid; allowed: a host name or an IP address{hint}."
            raise click.BadParameter(text, ctx, param) from None


def _invalid_number(value: Any, kind: type, allowed: NumberRange | WholeNumberRange) -> str:
    """Return the error text for an invalid `value` of an option.

    `allowed` is the type of the option; the text names the numbers that the type allows.
    """
    from msgspec import Meta

    from edge_tvbo.messages.declared_types import allowed_values

    limits: dict[str, Any] = {
        "gt" if allowed.min_open else "ge": allowed.min,
        "lt" if allowed.max_open else "le": allowed.max,
    }
    try:
        float(value)
    except ValueError:
        value = repr(value)
    words = allowed_values(Annotated[kind, Meta(**limits)])
    return f"{value} is invalid; allowed: {words}, such as {allowed.example}."


SPEED = NumberRange(0, 1_000_000, min_open=True, example=600)  # as a multiple of real time
POSITIVE = NumberRange(0, min_open=True, example=2.5)
HOST = HostType()  # of a server
PORT = WholeNumberRange(1, 65535, example=1883)  # of a TCP server
DEFAULT = click.core.ParameterSource.DEFAULT
# Names of the files in a daemon's state directory, such as lab.readings.db:
STATE_FILE = re.compile(
    r".+\.((readings|history)\.db(-wal|\.damaged)?|state(\.(previous|new|[a-z]+-\d+))?)"
)
TEXT_WITHOUT_QUOTES = re.compile(r"(?!(?i:true|false|inf|nan)$)[^\W\d_][^\"\\]*")
OPTIONS_WITHOUT_EFFECT_ON_RESULTS = ("out", "as_json", "cluster", "jobs")


def all_of(*options: Option) -> Option:
    """Return one decorator that adds all `options` to a command, in the same order."""

    def add(command: Callable[..., None]) -> Callable[..., None]:
        for option in reversed(options):
            command = option(command)
        return command

    return add


# The loader reports a configuration that cannot be read, and click does not: the exit status of
# `run` then differs from the status after an invalid argument.
CONFIG_FILE = click.Path(path_type=Path, readable=False)
config_argument = click.argument("config", type=CONFIG_FILE)
gaps_option = click.option(
    "--gaps",
    type=click.Choice(["filled", "silent"]),
    default="filled",
    show_default=True,
    help="In gaps of the recording, sensors reply with interpolated values (filled) or not at all"
    " (silent).",
)
data_dir_option = click.option(
    "--data-dir", multiple=True, help="Directory that is searched first for datasets; repeatable."
)
seed_option = click.option(
    "--seed",
    default=0,
    show_default=True,
    type=WholeNumberRange(0, example=1),
    help="Seed of the runs.",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
noise_option = click.option(
    "--noise",
    type=NumberRange(1e-50, 1e50, example=0.01),  # as in the configuration
    default=0.01,
    show_default=True,
    help="Noise variance of a reading, relative to the variance of the training data. The policies"
    " auto and kalman-ucb use the noise variance of their models instead.",
)


def _time(context: click.Context, option: click.Parameter, text: str | None) -> datetime | None:
    """Return the time that is the value of the option `--from` or `--to`; None without the option.

    `text` is a date or a time. A date in `--to` stands for the end of this day.
    """
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
        if option.name == "to" and _is_date(text):
            moment += timedelta(days=1)
    except (ValueError, OverflowError):
        raise click.BadParameter(
            f"{text!r} is not a time such as 2026-03-02 or 2026-03-02T08:00:00Z."
        ) from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _is_date(text: str) -> bool:
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True


from_option = click.option(
    "--from",
    "first",
    callback=_time,
    help="Skip readings before this day or time; a time without a zone is in UTC.",
)
to_option = click.option(
    "--to", callback=_time, help="Use the readings up to the end of this day, or up to this time."
)


def by_dataset(context: click.Context, option: click.Parameter, begun: str) -> list[str]:
    """Return the dataset names that begin with `begun`, as completions for a shell."""
    from edge_tvbo_adapters import datasets

    return [name for name in datasets.names() if name.startswith(begun)]


dataset_option = click.option(
    "--dataset",
    default="lab-sample",
    show_default=True,
    shell_complete=by_dataset,
    help="Name of a dataset; `edge-tvbo data list` prints all names.",
)


def by_policy(context: click.Context, option: click.Parameter, begun: str) -> list[str]:
    """Return completions of `begun`, the beginning of a list of policies, for a shell.

    The names are separated by commas; only the last name is completed.
    """
    from edge_tvbo.policy import policies

    before, comma, last = begun.rpartition(",")
    return [f"{before}{comma}{name}" for name in policies() if name.startswith(last)]


def duration_option(context: click.Context, option: click.Parameter, text: str) -> float:
    """Return the value of a command-line option, a duration such as ``5s``, in seconds."""
    return _seconds(text, "0s or more")


def _seconds(text: str, allowed: str) -> float:
    try:
        return seconds(text)
    except ConfigError as error:
        raise click.BadParameter(f"{error}; allowed: {allowed}.") from None


def output_file(context: click.Context, option: click.Parameter, path: Path | None) -> Path | None:
    """Return the path that an option names, checked by `writable_file`; None without the option."""
    return None if path is None else writable_file(path)


def writable_file(path: Path) -> Path:
    """Return the path of an output file, if a command can write a file there.

    For a symbolic link, return the path to which it leads, because the command replaces the file
    at this path, and not the link. The directory must be writable, even if the file exists.
    If no file can be written, raise `click.BadParameter` before the command does its work.
    """
    if path == Path("-"):
        raise click.BadParameter(
            "- does not stand for standard output; name a file, or leave out the option."
        )
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise click.BadParameter(f"{path} is a pipe or a device; name a file.")
    if path.is_symlink():
        path = _linked(path)
    if path.is_dir():
        raise click.BadParameter(f"{path} is a directory; name a file, such as {path / 'out'}.")
    if path.exists() and STATE_FILE.fullmatch(path.name):
        raise click.BadParameter(f"{path} is a file of a daemon's state; name another file.")
    if not path.parent.is_dir():
        raise click.BadParameter(f"{path}: the directory {path.parent} does not exist; create it.")
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise click.BadParameter(f"{path}: this user cannot write to {path.absolute().parent}.")
    return path


def _linked(link: Path) -> Path:
    """Return the target of an option's symbolic link; raise `click.BadParameter` for a loop."""
    with suppress(RuntimeError):  # raised for a loop before Python 3.13
        if not (target := link.resolve()).is_symlink():
            return target
    raise click.BadParameter(f"{link} is a symbolic link that leads to itself; name another file.")


def check_not_input(output: Path | None, *inputs: Path | str | None) -> None:
    """Raise `ConfigError` if the option `--output` names one of the command's input files."""
    for each in inputs:
        if output and each and output.exists() and Path(each).exists() and output.samefile(each):
            raise ConfigError(
                f"--output would replace {each}, which the command reads; name another file."
            )


def optional_duration(
    context: click.Context, option: click.Parameter, text: str | None
) -> float | None:
    """Return the value of an option, a duration above 0, in seconds; None if it is not given."""
    if text is None:
        return None
    length = _seconds(text, "more than 0s")
    if length == 0.0:
        raise click.BadParameter(f"{text} is too short; allowed: more than 0s, such as 10min.")
    return length


# A dataset, and the directories that are searched for its files:
dataset_options = all_of(dataset_option, data_dir_option)
# A dataset, its gaps, and its training and test days:
recording_options = all_of(
    dataset_options,
    gaps_option,
    click.option(
        "--train",
        metavar="DAYS",
        help="First and last training day, such as 2004-03-01:2004-03-06.  [default: all days "
        "before the test days]",
    ),
    click.option(
        "--test",
        metavar="DAYS",
        help="First and last test day.  [default: with --train, all days after the training "
        "days; otherwise, the last quarter of the recording]",
    ),
)
# The argument CONFIG or CSV, and the options for the user's own readings:
own_readings_options = all_of(
    click.argument("config", type=CONFIG_FILE, required=False, metavar="[CONFIG|CSV]"),
    click.option("--field", help="Field to use, if CONFIG has several fields."),
    from_option,
    to_option,
    click.option(
        "--interval",
        callback=optional_duration,
        help="Interval of the replay, such as 10min.  [default: as in CONFIG or the data]",
    ),
    click.option(
        "--objective",
        type=click.Choice(["max", "min"]),
        help="Search for the highest or the lowest value.  [default: as in CONFIG or the data]",
    ),
    click.option(
        "--positions",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        help="File with a line `id x y` for each sensor; x and y are in m.",
    ),
)


def given_options(*names: str) -> list[str]:
    """Return the options that the user has given to the current command, such as --data-dir.

    Only the options whose parameters are in `names` are returned, in the order of `names`. For
    example, data_dir is the parameter of --data-dir.
    """
    context = click.get_current_context()
    options = {option.name: option.opts[-1] for option in context.command.params}
    return [
        options[name]
        for name in names
        if name in options and context.get_parameter_source(name) is not DEFAULT
    ]


def command_line(context: click.Context) -> str:
    """Return a command line that reproduces the results of the current command.

    Options that do not affect the results are left out.
    """
    from shlex import join

    words = ["edge-tvbo", context.info_name or ""]
    for option in context.command.params:
        name = option.name or ""
        if (
            name in OPTIONS_WITHOUT_EFFECT_ON_RESULTS
            or context.get_parameter_source(name) is DEFAULT
        ):
            continue
        value = context.params[name]
        for each in value if isinstance(value, tuple) else (value,):
            text = duration_text(each) if name == "interval" else str(each)
            words += [text] if isinstance(option, click.Argument) else [option.opts[-1], text]
    return join(words)


def assigned_parameters(assignments: Iterable[str]) -> dict[str, Any]:
    """Return a policy's parameters from the options --set name=value; values are read as TOML.

    >>> assigned_parameters(["epsilon=0.03", "beta={c1=0.4, c2=4}"])
    {'epsilon': 0.03, 'beta': {'c1': 0.4, 'c2': 4}}
    """
    import tomllib

    try:
        return tomllib.loads("\n".join(assignments))
    except tomllib.TOMLDecodeError as error:
        found = " ".join(map(repr, assignments))
        raise ConfigError(f"--set is {found}: {error}; {_correct(assignments)}") from None


def _correct(assignments: Iterable[str]) -> str:
    """Return a hint for an option --set that is not valid TOML, such as a text without quotes."""
    from shlex import quote

    for name, _, value in (each.partition("=") for each in assignments):
        if TEXT_WITHOUT_QUOTES.fullmatch(value.strip()):
            text = quote(f'{name.strip()}="{value.strip()}"')
            return f"a text needs quotes:  --set {text}"
    return "write  --set epsilon=0.03"
