"""Unused options: `replay` and `compare` warn of each option that has no effect."""

import json
from functools import cache

import pytest
from click.testing import CliRunner

from edge_tvbo.cli import main

COMMANDS = {
    "replay": ("replay", "--policy", "random", "--json"),
    "compare": ("compare", "--policies", "random,round-robin", "--seeds", "1", "--json"),
}
UNUSED = [
    *[
        (command, option, value, reason)
        for command in ("replay", "compare")
        for option, value, reason in (
            (
                "--next-activation",
                "at-once",
                "only one sensor is activated in each interval; add --per-interval 2",
            ),
            (
                "--data-dir",
                "/tmp",
                "the dataset lab-sample has no files; name another one with --dataset",
            ),
            ("--noise", "0.5", "no replayed policy uses this option"),
        )
    ],
    *[
        ("replay", option, value, "the replay uses no broker; add --via mqtt")
        for option, value in (("--host", "lan"), ("--port", "1"), ("--speed", "2"))
    ],
]


def run(*arguments):
    result = CliRunner().invoke(main, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.stderr
    lines = result.stderr.splitlines()  # on a busy machine, also the progress
    return json.loads(result.stdout), [each for each in lines if each.startswith("warning: ")]


@cache
def run_without_options(command):
    return run(*COMMANDS[command])


@pytest.mark.parametrize(("command", "option", "value", "reason"), UNUSED)
def test_an_option_without_effect_is_warned_of_and_changes_no_result(
    command, option, value, reason
):
    results, warnings = run(*COMMANDS[command], option, value)

    assert warnings == [f"warning: {option} has no effect, because {reason}"]
    assert (results, []) == run_without_options(command)


@pytest.mark.parametrize(
    ("arguments", "option", "value"),
    [
        (
            ("compare", "--policies", "gp-ucb", "--seeds", "1", "--json", "--per-interval", "2"),
            "--next-activation",
            "at-once",
        ),
        (("replay", "--policy", "gp-ucb", "--json"), "--noise", "0.5"),
    ],
)
def test_an_option_that_changes_the_result_is_not_warned_of(arguments, option, value):
    results, warnings = run(*arguments, option, value)

    assert warnings == []
    assert results != run(*arguments)[0]


def test_the_directory_of_a_named_dataset_is_not_warned_of():
    assert run(*COMMANDS["replay"], "--dataset", "lab-sample", "--data-dir", "/tmp")[1] == []


def test_the_broker_of_a_replay_over_mqtt_is_not_warned_of():
    arguments = ("replay", "--policy", "random", "--via", "mqtt", "--port", "1", "--speed", "9")

    result = CliRunner().invoke(main, arguments)

    assert result.exit_code == 2
    assert "127.0.0.1:1: " in result.stderr and "warning" not in result.stderr
