"""`demo`: its lines on a terminal."""

import pytest
from support.history import history_entry

from edge_tvbo.cli import demo
from edge_tvbo.messages.commands import PublishState


@pytest.mark.parametrize(("columns", "longest"), [(20, 19), (80, 79), (300, demo.MAX_LINE_LENGTH)])
def test_a_line_of_the_demo_fits_in_one_row_of_the_terminal(columns, longest, monkeypatch, capsys):
    """The terminal is simulated: a longer line would wrap, and only its last row be replaced."""
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setattr(demo.sys.stdout, "isatty", lambda: True)
    entry = history_entry(1, text=400 * "a")
    watch = demo._decision_printer()

    for command in 2 * (PublishState(entry.decision), entry.record):
        watch(command)

    before, *lines = capsys.readouterr().out.split("\r\x1b[2K")
    assert before == ""
    assert [len(line) for line in lines] == [longest, longest]
