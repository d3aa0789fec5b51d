"""Unused options: `replay` and `compare` warn of each option that has no effect."""

import json

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
        for command in COMMANDS
        for option, value, reason in (
            (
                "--next-activation",
                "at-once",
                "only one sensor is activated in each interval; add --per-interval 2",
            ),
            ("--data-dir", "/tmp", "the dataset lab-sample has no files; add --dataset"),
            ("--noise", "0.5", "no replayed policy has a model"),
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
    return json.loads(result.stdout), result.stderr.splitlines()


@pytest.mark.parametrize(("command", "option", "value", "reason"), UNUSED)
def test_an_option_without_effect_is_warned_of_and_changes_no_result(
    command, option, value, reason
):
    results, warnings = run(*COMMANDS[command], option, value)

    assert warnings == [f"warning: {option} has no effect, because {reason}"]
    assert (results, []) == run(*COMMANDS[command])


@pytest.mark.parametrize(
    "arguments",
    [
        (*COMMANDS["compare"], "--next-activation", "at-once", "--per-interval", "2"),
        ("replay", "--policy", "gp-ucb", "--noise", "0.5", "--json"),
        (*COMMANDS["replay"], "--dataset", "lab-sample", "--data-dir", "/tmp"),
    ],
)
def test_an_option_with_an_effect_is_not_warned_of(arguments):
    _, warnings = run(*arguments)

    assert warnings == []


def test_the_broker_of_a_replay_over_mqtt_is_not_warned_of():
    arguments = ("replay", "--policy", "random", "--via", "mqtt", "--port", "1", "--speed", "9")

    result = CliRunner().invoke(main, arguments)

    assert result.exit_code == 2
    assert "127.0.0.1:1: " in result.stderr and "warning" not in result.stderr
