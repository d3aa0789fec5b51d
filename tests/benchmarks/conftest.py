"""Fixture of the benchmarks: the page that their rows make up.

    def test_ours_is_no_slower_than_twice_theirs(bench):
        ours, theirs = in_turns(run_ours, run_theirs)            # seconds, round by round
        bench("what it is", "a bare paho client", ratios(ours, theirs), most=2.0,
              detail=f"{spread(ours, 1e6)} µs, it {spread(theirs, 1e6)} µs")

`bench` keeps a row and then fails the test whose median ratio misses `most` or `least`;
`bench.absent("what", "scikit-learn", "not installed: ...")` keeps one that says why there is none.
"""

from datetime import date
from pathlib import Path
from statistics import median

import pytest
from benchmarks.rounds import spread
from support.provenance import commit, machine

PAGE = Path(__file__).with_name("RESULTS.md")
HEAD = """\
# Results of the benchmarks

`make bench` writes this page. It shows the last run of each comparison. The two sides of a
comparison ran in turns on one machine, in several rounds. A ratio or a time is the median over the
rounds, with the quartiles in brackets. In the column `times`, the first time is that of edge_tvbo,
and "it" is the object in the column `compared with`. A `+` after a commit means that there were
uncommitted changes.

| what | compared with | ratio | target | reached | times | when | commit | machine |
|---|---|---|---|---|---|---|---|---|
"""
kept = pytest.StashKey[dict[str, str]]()


class Bench:
    """Keeps the rows of a session."""

    def __init__(self, rows):
        self.rows = rows

    def __call__(self, what, against, ratios, *, most=None, least=None, detail=""):
        """Keep a row; `ratios` are what is measured divided by what it stands against, by round."""
        found = median(ratios)
        held = (most is None or found <= most) and (least is None or found >= least)
        target = f"≤ {most:g}" if most is not None else f"≥ {least:g}" if least is not None else "–"
        said = "–" if target == "–" else "yes" if held else "**no**"
        self._keep(what, against, f"{spread(ratios)} | {target} | {said} | {detail}")
        print(f"\n{what}, against {against}: {spread(ratios)} ({target}); {detail}")
        assert held, f"{what}, against {against}: {spread(ratios)}; it is to reach {target}"

    def absent(self, what, against, why):
        """Keep a row for a comparison that cannot be made here."""
        self._keep(what, against, f"– | – | – | {why}")

    def _keep(self, what, against, rest):
        self.rows[f"{what} | {against}"] = f"{rest} | {date.today()}"


@pytest.fixture
def bench(request):
    return Bench(request.config.stash.setdefault(kept, {}))


def pytest_sessionfinish(session):
    """Replace the rows of earlier sessions by this session's."""
    ours = session.config.stash.get(kept, {})
    if not ours:
        return
    where = f"{commit(PAGE)} | {machine()}"
    rows = earlier() | {key: f"{rest} | {where}" for key, rest in ours.items()}
    PAGE.write_text(HEAD + "".join(f"| {k} | {v} |\n" for k, v in sorted(rows.items())), "utf-8")


def earlier():
    """Return the rows of the page by what is compared with what."""
    text = PAGE.read_text("utf-8").removeprefix(HEAD) if PAGE.exists() else ""
    cells = (line.strip("| ").split(" | ") for line in text.splitlines())
    return {" | ".join(each[:2]): " | ".join(each[2:]) for each in cells}
