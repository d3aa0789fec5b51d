"""Reports of a comparison: reproducible bytes, a self-contained page, consistent tables."""

import csv
import dataclasses
import json
import os
import pty
import re
import struct
import subprocess
import sys
import zlib
from base64 import b64decode
from html.parser import HTMLParser
from itertools import pairwise

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import asdict
from support.examples import max_examples
from support.recordings import data_source

from edge_tvbo.cli import main, output
from edge_tvbo.research.confidence import T_975, errors_to_half_width, half_width
from edge_tvbo.research.reports import figures, html_report, svg, tables, write
from edge_tvbo.research.reports.summary import (
    SIMPLE_BASELINES,
    ComparisonSummary,
    percent,
)
from edge_tvbo.research.resumable_jobs import write_atomically
from edge_tvbo.simulation.backtest import Backtest
from edge_tvbo.simulation.recording import Recording
from edge_tvbo.simulation.replay import Pace
from edge_tvbo.simulation.row_range import RowRange

POLICIES = ("et-gp-ucb", "r-gp-ucb", "random", "round-robin", "static")
COMMAND = "edge-tvbo compare --seeds 3"


class UncheckedRecording(Recording):
    """A recording whose fields are not checked."""

    def __post_init__(self):
        pass


def changed(recording, **changes):
    return UncheckedRecording(**(asdict(recording) | changes))


def backtest_of(recording):
    return Backtest(recording, RowRange(0, 400), RowRange(1000, 1096))


@pytest.fixture(scope="module")
def recording():
    return data_source().load("lab-sample")


@pytest.fixture(scope="module")
def summary(recording):
    backtest = backtest_of(recording)
    results = [backtest.run(name, {}, 3) for name in POLICIES]
    return ComparisonSummary(backtest, [*results, backtest.oracle()], COMMAND)


@pytest.fixture(scope="module")
def page(summary):
    return html_report.html(summary)


def run(*arguments):
    return CliRunner().invoke(main, arguments, catch_exceptions=False)


# --- numbers ------------------------------------------------------------------------------------


def test_on_a_full_disk_the_error_names_the_file(summary, tmp_path):
    (tmp_path / "results.md").symlink_to("/dev/full")
    with pytest.raises(OSError, match="No space left on device") as failed:
        write(summary.backtest, summary.results, tmp_path, summary.command)
    assert failed.value.filename == str(tmp_path / "results.md")
    (tmp_path / "job.new").symlink_to("/dev/full")
    with pytest.raises(OSError, match="No space left on device") as failed:
        write_atomically(tmp_path / "job.json", b"{}")
    assert failed.value.filename == str(tmp_path / "job.json")


def test_quantiles_of_students_t_are_right():
    t = pytest.importorskip("scipy.stats").t
    assert [round(t.ppf(0.975, n), 3) for n in range(1, 31)] == list(T_975)
    for free in (31, 47, 100, 10_000):
        assert errors_to_half_width(free + 1) == pytest.approx(t.ppf(0.975, free), abs=5e-4)


def test_95_percent_interval_contains_the_mean_in_19_of_20_samples():
    rng = np.random.default_rng(0)
    samples = rng.normal(3.0, 2.0, (5, 4000))
    covered = np.abs(samples.mean(axis=0) - 3.0) <= half_width(samples)
    assert covered.mean() == pytest.approx(0.95, abs=0.015)


def test_one_seed_gives_no_interval(recording):
    backtest = backtest_of(recording)
    single = ComparisonSummary(backtest, [backtest.run("random", {}, 1)])
    assert single.rows[0].interval == "one seed"
    assert "nan" not in html_report.html(single).lower()


def test_static_activates_the_best_sensor_of_the_training_days(recording):
    backtest = backtest_of(recording)
    best = recording.sensors[recording.values[:400].mean(axis=0).argmax()]
    result = backtest.run("static", {}, 1)
    assert result.settings == {"sensor": best}
    assert {recording.sensors[arm] for arm in result.picks[0]} == {best}


def test_resets_are_recorded_in_their_interval(summary):
    """R-GP-UCB resets before the choice, every 15 intervals; ET after a reply, at most 15 later."""
    periodic = next(row.result for row in summary.rows if row.name == "r-gp-ucb")
    assert np.flatnonzero(periodic.steps["reset"][0]).tolist() == list(range(15, 96, 15))
    event = next(row.result for row in summary.rows if row.name == "et-gp-ucb")
    steps = event.steps[0]
    triggered = steps["error"] > steps["threshold"]
    assert steps["reset"][triggered].all()
    for each in summary.rows:
        assert each.result.steps["reset"].sum(axis=1).tolist() == each.result.resets


# --- sentences ----------------------------------------------------------------------------------

MEANS = st.dictionaries(
    st.sampled_from(("auto", "gp-ucb", "tv-gp-ucb", "rexp3", *SIMPLE_BASELINES)),
    st.floats(0.001, 3.0),
    min_size=2,
)


@pytest.mark.acceptance(21)
@given(MEANS)
@max_examples(60)
def test_sentences_say_when_a_simple_baseline_is_the_best(summary, means):
    some = summary.results[0]
    results = [
        type(some)(**{**vars(some), "policy": name, "regret": np.full((2, 96), mean)})
        for name, mean in means.items()
    ]
    sentences = ComparisonSummary(summary.backtest, results).sentences()
    first = min(means, key=means.get)
    modelled = [name for name in means if name not in SIMPLE_BASELINES]
    wins = (
        first in SIMPLE_BASELINES and any(modelled) and min(map(means.get, modelled)) > means[first]
    )
    expected = f"A simple baseline is the best: {first}" if wins else f"{first} has the least"
    assert sentences[0].startswith(expected)
    simple = [means[name] for name in means if name in SIMPLE_BASELINES]
    worse = [name for name in modelled if simple and means[name] > min(simple)]
    if not wins and worse:
        assert all(f"{name} (" in sentences[1] for name in worse)
    assert "2.2 %" in sentences[-1]


@pytest.mark.parametrize(("leading", "says"), [(96, False), (50, True)])
def test_a_sentence_says_if_the_best_policy_may_be_the_best_by_chance(summary, leading, says):
    """Equal replays with all seeds say nothing about other test days."""
    some = summary.results[0]
    regret = np.where(np.arange(96) < leading, 0.1, 0.5)
    regrets = {"auto": regret, "kalman-ucb": np.full(96, 0.31)}
    results = [
        type(some)(**{**vars(some), "policy": name, "regret": np.tile(each, (2, 1))})
        for name, each in regrets.items()
    ]
    (first, *_) = ComparisonSummary(summary.backtest, results).sentences()
    assert first.startswith("auto has the least regret: ")
    expected = (
        " The lead of auto over kalman-ucb, 0.018 ± 0.151 (95 %, over 10 blocks of the test time), "
        "may be due to chance: on other days, kalman-ucb may be better."
    )
    assert first.endswith(expected) == ("may be due to chance" in first) == says


def test_a_sentence_says_if_the_lead_over_the_second_policy_may_be_chance(summary):
    """The simple baseline is far behind, which says nothing about the second policy."""
    some = summary.results[0]
    curve = np.where(np.arange(96) < 50, 0.1, 0.5)
    regrets = {"auto": curve, "tv-gp-ucb": np.full(96, 0.31), "random": np.full(96, 0.9)}
    results = [
        type(some)(**{**vars(some), "policy": name, "regret": np.tile(each, (2, 1))})
        for name, each in regrets.items()
    ]
    (first, *_) = ComparisonSummary(summary.backtest, results).sentences()
    assert first.count("may be due to chance") == 1
    assert first.endswith(
        " less than the best simple baseline, random with 0.900. The lead of auto over tv-gp-ucb, "
        "0.018 ± 0.151 (95 %, over 10 blocks of the test time), may be due to chance: on other "
        "days, tv-gp-ucb may be better."
    )


def test_report_for_the_objective_min_is_about_the_coldest(recording):
    backtest = backtest_of(changed(recording, objective="min"))
    cold = ComparisonSummary(
        backtest, [backtest.run("static", {}, 2), backtest.run("random", {}, 2)]
    )
    assert (
        cold.best.tolist()
        == np.where(recording.observed[1000:1096], recording.values[1000:1096], np.inf)
        .argmin(axis=1)
        .tolist()
    )
    assert "the coldest sensor" in html_report.html(cold)
    assert "hottest" not in html_report.html(cold)
    assert (cold.behind >= 0).all()


# --- tables -------------------------------------------------------------------------------------


def read(text):
    return list(csv.DictReader(text.splitlines()))


def test_picks_agree_with_the_results(summary):
    picks, results = read(tables.picks(summary)), read(tables.results(summary))
    assert len(results) == len(POLICIES) * 3
    assert len(picks) == len(POLICIES) * 3 * 96
    scale = summary.backtest.field.scale
    for result in results:
        own = [p for p in picks if (p["policy"], p["seed"]) == (result["policy"], result["seed"])]
        regret = np.mean([float(p["regret"]) for p in own]) / scale
        assert regret == pytest.approx(float(result["regret_per_interval"]), abs=1e-6)
        assert sum(int(p["reset"]) for p in own) == int(result["resets"])
        assert sum(p["value"] == "" for p in own) == int(result["missed"])


def test_picks_have_the_measured_and_the_best_value(summary):
    recording = summary.backtest.recording
    for pick in read(tables.picks(summary))[::7]:
        observed = recording.observed[1000 + int(pick["interval"])]
        row = recording.values[1000 + int(pick["interval"])]
        best = row[recording.sensors.index(pick["best_sensor"])]
        arm = recording.sensors.index(pick["sensor"])
        picked = row[arm] if observed[arm] else row[observed].mean()
        assert best == float(pick["best_value"])
        assert float(pick["regret"]) == pytest.approx(max(0.0, best - picked), abs=1e-6)
        if pick["value"]:
            assert float(pick["value"]) == picked


def test_picks_of_small_values_are_not_rounded_away(recording):
    backtest = backtest_of(changed(recording, values=recording.values * 1e-9))
    summary = ComparisonSummary(backtest, [backtest.run("random", {}, 1)])
    steps = summary.results[0].steps[0]
    for pick, regret in zip(read(tables.picks(summary)), steps["regret"].tolist(), strict=True):
        assert float(pick["regret"]) == pytest.approx(regret, rel=1e-8, abs=0.0)
        assert len(re.sub(r"^[0.]*|\.|e.*", "", pick["regret"])) <= 9


def test_picks_have_the_exact_reading_and_mean_of_the_selected_sensor(recording):
    """A mean of readings has many digits, and a large offset leaves few of them to the changes."""
    backtest = backtest_of(changed(recording, values=1e9 + recording.values / 3.0))
    summary = ComparisonSummary(backtest, [backtest.run("kalman-ucb", {}, 1)])
    picks = read(tables.picks(summary))
    means = summary.results[0].steps[0]["mean"].tolist()
    assert [float(pick["mean"]) for pick in picks] == means
    best = [pick for pick in picks if pick["sensor"] == pick["best_sensor"]]
    assert best
    assert [pick["value"] for pick in best] == [pick["best_value"] for pick in best]


def test_a_single_activation_is_said_in_words(recording):
    backtest = backtest_of(recording)
    result = dataclasses.replace(backtest.run("random", {}, 1), activations=[1])
    sentence = ComparisonSummary(backtest, [result]).sentences()[-1]
    assert sentence.startswith("It activated a sensor once: ")


def test_markdown_table_is_complete(summary):
    text = tables.markdown(summary)
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert len({line.count("|") for line in rows}) == 1
    assert len(rows) == 2 + len(POLICIES) + 1  # always-on
    assert rows[-1].startswith("| always-on (all sensors in each interval) |")
    assert COMMAND in text
    assert "Seeds: 0 to 2" in text
    assert summary.backtest.recording.source in text


# --- page ---------------------------------------------------------------------------------------

VOID = {"meta", "path", "image", "use"}


class Checker(HTMLParser):
    """Parser that collects tags and headings, and fails if tags do not match."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.open, self.seen, self.headings = [], [], []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.seen.append((tag, dict(attributes)))
        if tag not in VOID:
            self.open.append(tag)
        if re.fullmatch("h[1-6]", tag):
            self.headings.append(int(tag[1]))

    def handle_startendtag(self, tag, attributes):
        self.seen.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def of(self, tag):
        return [attributes for name, attributes in self.seen if name == tag]


def test_page_is_self_contained(page):
    checked = Checker(page)
    assert not {"script", "link", "img", "iframe", "object"} & {tag for tag, _ in checked.seen}
    for tag, attributes in checked.seen:
        for name in ("src", "href"):
            target = attributes.get(name) or "#"
            assert target.startswith(("#", "data:image/png;base64,")), (tag, target)
    (style,) = re.findall(r"<style>(.*?)</style>", page, re.DOTALL)
    assert "url(" not in style
    assert "@import" not in style
    assert "prefers-color-scheme: dark" in style


def test_page_is_accessible_to_screen_readers(page):
    checked = Checker(page)
    assert checked.of("html") == [{"lang": "en"}]
    described = [each for each in checked.of("svg") if "aria-hidden" not in each]
    assert len(described) >= len(POLICIES) + 4
    assert all(each["role"] == "img" and len(each["aria-label"]) > 20 for each in described)
    assert len(checked.of("caption")) == len(checked.of("table")) >= 2
    assert all(each.get("scope") in ("row", "col") for each in checked.of("th"))
    assert checked.headings[0] == 1
    assert all(after - before <= 1 for before, after in pairwise(checked.headings))


def test_every_policy_has_a_raster_and_triggers_a_figure(summary, page):
    for row in summary.rows:
        assert f"{row.name} activated the hottest sensor in" in page
    assert len(re.findall("Errors and threshold", page)) == 2  # wide and narrow: only ET has one


def test_names_are_escaped(recording):
    names = tuple(f"<b>{i}</b>&\"'" for i in range(len(recording.sensors)))
    backtest = backtest_of(changed(recording, sensors=names))
    text = html_report.html(
        ComparisonSummary(backtest, [backtest.run("static", {}, 1)], "edge-tvbo <x>")
    )
    Checker(text)
    assert "<b>" not in text
    assert "<x>" not in text


def test_same_seeds_give_the_same_bytes_in_another_process(tmp_path):
    command = ["compare", "--seeds", "2", "--policies", "et-gp-ucb,round-robin,static", "--out"]
    run(*command, str(tmp_path / "here"))
    subprocess.run(
        [sys.executable, "-m", "edge_tvbo", *command, str(tmp_path / "there")],
        env={**os.environ, "PYTHONHASHSEED": "1"},
        check=True,
        capture_output=True,
    )
    here, there = (
        {path.name: path.read_bytes() for path in (tmp_path / each).iterdir()}
        for each in ("here", "there")
    )
    assert here == there
    assert set(here) == {"report.html", "results.csv", "results.md", "picks.csv"}
    printed = b"edge-tvbo compare --policies et-gp-ucb,round-robin,static --seeds 2"
    assert printed in here["report.html"]


def test_report_of_a_single_policy(recording, tmp_path):
    backtest = backtest_of(recording)
    written = write(backtest, [backtest.run("gp-ucb", {}, 1)], tmp_path, "edge-tvbo replay")
    Checker(written.read_text("utf-8"))
    assert "gp-ucb has a regret of" in written.read_text("utf-8")


def test_report_of_a_long_recording_is_short(recording):
    backtest = Backtest(recording, RowRange(0, 300), RowRange(300, 1152))
    results = [backtest.run(name, {}, 2) for name in ("round-robin", "et-gp-ucb")]
    text = html_report.html(ComparisonSummary(backtest, results))
    assert text.count("The last 576 of 852 intervals are shown") == 2
    assert re.search(r"et-gp-ucb reset its model \d+ times in the last 576 of 852 intervals;", text)
    assert len(text) < 300_000


@pytest.mark.parametrize("width", [figures.WIDE, figures.NARROW])
@given(days=st.floats(1.0, 40_000.0))
@example(days=1000.0)
def test_time_axis_of_many_years_has_few_ticks(width, days):
    canvas = svg.Canvas((0.0, days * figures.DAY), (0.0, 1.0), height=170, width=width)
    assert 1 <= len(figures._time_ticks(canvas)) <= (9 if width == figures.WIDE else 5)


@pytest.mark.parametrize("width", [figures.WIDE, figures.NARROW])
@given(begin=st.floats(1.6e9, 1.8e9), seconds=st.floats(4.0, 3600.0))
def test_time_axis_of_less_than_an_hour_has_ticks(width, begin, seconds):
    canvas = svg.Canvas((begin, begin + seconds), (0.0, 1.0), height=170, width=width)
    found = figures._time_ticks(canvas)
    assert 1 <= len(found) <= (9 if width == figures.WIDE else 5)
    assert len({label for _, label in found}) == len(found)


@pytest.mark.parametrize("length", [20, 40, 80])
def test_long_names_leave_room_for_the_figures(recording, length):
    names = {each: f"Room | {each} ".ljust(length, "x") for each in recording.sensors}
    backtest = backtest_of(changed(recording, names=names))
    results = [backtest.run(name, {}, 1) for name in ("static", "random")]
    summary = ComparisonSummary(backtest, results)
    drawn = [figures.regret_figure(summary), figures.raster_figure(summary, summary.rows[0])]
    for figure in drawn:
        ((left, right),) = re.findall(r'"tick" d="M([\d.]+) [\d.]+H([\d.]+)"', figure.svg)
        assert float(right) - float(left) > 300.0
        for x, text in re.findall(r'<text x="([\d.]+)" [^>]*"end">([^<]*)<', figure.svg):
            assert float(x) - 6.6 * len(text) >= 0.0
        for x, text in re.findall(r'<text x="([\d.]+)" [^>]*"start">([^<]*)<', figure.svg):
            assert float(x) + 6.6 * len(text) <= figures.WIDE
    rows = [line for line in tables.markdown(summary).splitlines() if line.startswith("|")]
    assert len({len(re.findall(r"(?<!\\)\|", line)) for line in rows}) == 1
    assert any("static (Room \\| " in line for line in rows)


def test_with_several_sensors_in_an_interval_there_is_no_calibration(recording):
    """A replay records only the best reply of an interval."""
    pace = Pace(per_interval=3)
    backtest = Backtest(recording, RowRange(0, 400), RowRange(1000, 1096), pace=pace)
    summary = ComparisonSummary(backtest, [backtest.run("et-gp-ucb", {}, 1)])
    text = html_report.html(summary)

    assert figures.calibrations(summary) == []
    assert "There is no calibration, because several sensors were activated" in text
    assert "Only the reply of the best activated sensor of each interval is shown;" in text
    assert "A reset without an error above the threshold" not in text


@pytest.mark.parametrize(("unit", "shown"), [("°C", "°C"), ("", "unit of the readings")])
def test_errors_of_the_event_trigger_are_in_the_unit_of_the_readings(recording, unit, shown):
    backtest = backtest_of(changed(recording, unit=unit))
    summary = ComparisonSummary(backtest, [backtest.run("et-gp-ucb", {}, 1)])
    assert f">error ({shown})<" in figures.trigger_figure(summary, summary.rows[0]).svg


def test_regret_of_small_values_is_not_rounded_to_zero(recording):
    small = changed(recording, values=recording.values / 1000, unit="m")
    backtest = backtest_of(small)
    (sentence, *_) = ComparisonSummary(backtest, [backtest.run("random", {}, 1)]).sentences()
    assert re.search(r"\(0\.00[1-9]\d* m\) per interval", sentence)


# --- SVG ----------------------------------------------------------------------------------------


@given(st.floats(-1e6, 1e6), st.floats(1e-3, 1e6))
def test_ticks_are_few_round_and_inside_the_range(low, length):
    found = svg.ticks(low, low + length)
    values = [value for value, _ in found]
    slack = 1e-6 * (abs(low) + length)
    assert 1 <= len(found) <= 8
    assert values == sorted(values)
    assert all(low - slack <= value <= low + length + slack for value in values)
    assert all(float(label) == pytest.approx(value, abs=slack) for value, label in found)


@given(st.lists(st.floats(0.0, 100.0), min_size=1, max_size=20))
def test_labels_do_not_overlap_and_stay_in_the_picture(places):
    canvas = svg.Canvas((0.0, 1.0), (0.0, 100.0), height=400, right=100)
    canvas.labels([(place, "x", "") for place in places])
    written = re.findall(r'<text x="[\d.]+" y="([\d.]+)"', canvas.svg("labels"))
    heights = sorted(float(each) for each in written)
    assert len(heights) == len(places)
    assert heights[0] > 0
    assert heights[-1] <= 400
    assert all(after - before >= 12.9 for before, after in pairwise(heights))


@given(st.integers(1, 9), st.integers(1, 9), st.integers(0, 2**32))
def test_heat_map_is_a_png_whose_opacity_is_the_value(rows, columns, seed):
    values = np.random.default_rng(seed).uniform(0.0, 1.0, (rows, columns))
    opacity = opacity_of(svg.heat_map(values))
    assert opacity.shape == (rows, columns)
    np.testing.assert_allclose(opacity, values, atol=0.02)


def opacity_of(uri):
    """Return the opacity of all pixels of a heat map, as a share of the largest opacity."""
    data = b64decode(uri.partition(",")[2])
    chunks, at = {}, 8
    while at < len(data):
        (length,) = struct.unpack(">I", data[at : at + 4])
        kind, body = data[at + 4 : at + 8], data[at + 8 : at + 8 + length]
        assert struct.unpack(">I", data[at + 8 + length : at + 12 + length])[0] == zlib.crc32(
            kind + body
        )
        chunks[kind], at = body, at + 12 + length
    columns, rows = struct.unpack(">II", chunks[b"IHDR"][:8])
    pixels = np.frombuffer(zlib.decompress(chunks[b"IDAT"]), np.uint8).reshape(rows, columns + 1)
    return np.frombuffer(chunks[b"tRNS"], np.uint8)[pixels[:, 1:]] / (255 * svg.MAX_OPACITY)


def test_heat_map_of_a_raster_fits_the_time_axis_if_intervals_were_left_out(recording):
    observed = recording.observed.copy()
    observed[1010:1060] = False
    observed[1005, 3] = False
    backtest = backtest_of(changed(recording, observed=observed))
    summary = ComparisonSummary(backtest, [backtest.run("static", {}, 1)])
    (uri,) = re.findall(r'href="(data:[^"]+)"', figures.shared_heat_map(summary))
    opacity = opacity_of(uri)[np.argsort(figures._order(summary))].T

    assert opacity.shape == (96, 46)
    assert len(summary.times) == 46
    assert not opacity[10:60].any()
    assert opacity[5, 3] == 0.0
    filled = np.where(observed[1000:1096], 1.0 - opacity, np.inf)
    recorded = summary.replayed - 1000
    assert (filled[recorded, summary.best] == 0.0).all()

    picture = figures.raster_figure(summary, summary.rows[0]).svg
    (bars,) = re.findall(r'"line best" d="([^"]+)"', picture)
    spans = re.findall(r"M([\d.]+) [\d.]+L([\d.]+) ", bars)
    (canvas,) = re.findall(r'd="M([\d.]+) [\d.]+H([\d.]+)"', picture)
    low, high = map(float, canvas)
    middle = low + (high - low) * 35 / 96
    assert spans
    assert not any(float(begin) < middle < float(end) for begin, end in spans)


def test_calibration_of_a_right_and_an_overconfident_model():
    z = np.random.default_rng(1).normal(size=20_000)
    right = figures.Calibration("right", "", z)
    for share in (0.1, 0.5, 0.9):
        assert right.covered(share) == pytest.approx(share, abs=0.01)
    assert right.tenths() == pytest.approx([1.0] * 10, abs=0.06)
    overconfident = figures.Calibration("overconfident", "", 2.0 * z)
    assert overconfident.covered(0.9) < 0.65
    assert overconfident.tenths()[0] > 2.0


def test_only_policies_with_a_model_have_a_calibration(summary):
    assert [each.name for each in figures.calibrations(summary)] == [
        row.name for row in summary.rows if row.name in ("et-gp-ucb", "r-gp-ucb")
    ]


def standardised(policy, arm, y):
    if policy.name == "gp-ucb":
        known = policy.prediction(arm)
        return (y - known.mean) / (known.std**2 + policy.field.noise_variance) ** 0.5
    low, high = policy.prediction_interval(arm, 0.6826894921)
    return (y - (low + high) / 2.0) / ((high - low) / 2.0)


@pytest.mark.parametrize("name", ["auto", "kalman-ucb", "gp-ucb"])
def test_calibration_uses_the_noise_that_the_policy_predicts(recording, name):
    """`auto` and `kalman-ucb` learn the noise, which differs from that of the field."""
    without_gaps = changed(recording, observed=np.ones_like(recording.observed))
    backtest = backtest_of(without_gaps)
    summary = ComparisonSummary(backtest, [backtest.run(name, {}, 1)])
    policy, z = backtest.make_policy(name, {}, 0), []
    for row in range(1000, 1096):
        policy.set_time(recording.start + row * recording.interval)
        arm = policy.select().arm
        y = backtest.field.to_model(recording.values[row, arm])
        z.append(standardised(policy, arm, y))
        policy.observe(arm, y)
        policy.advance()
    (found,) = figures.calibrations(summary)
    np.testing.assert_allclose(found.z, z, rtol=1e-6)


def with_regrets(summary, **regrets):
    """Return the summary of a comparison in which each policy has a constant regret."""
    some = vars(summary.results[0])
    results = [
        type(summary.results[0])(**{**some, "policy": name, "regret": np.full((2, 96), regret)})
        for name, regret in regrets.items()
    ]
    return ComparisonSummary(summary.backtest, results)


@pytest.mark.parametrize("names", [("static", "auto"), ("auto", "static")])
def test_equal_regret_of_a_policy_and_a_simple_baseline_is_said(summary, names):
    first, other = names
    sentence = with_regrets(summary, **dict.fromkeys(names, 0.0)).sentences()[0]
    assert sentence.startswith(f"{first} has the least regret: 0.000 ")
    assert sentence.endswith(f" per interval. {other} has the same regret.")
    assert "more" not in sentence


@pytest.mark.parametrize(
    ("regret", "share"),
    [
        (0.0, "100 %"),
        (0.0001, "more than 99.9 %"),
        (0.001, "99.8 %"),
        (0.2, "60 %"),
        (0.499, "0.2 %"),
        (0.4999, "less than 0.1 %"),
    ],
)
def test_a_difference_in_regret_is_not_rounded_to_0_or_100_percent(summary, regret, share):
    sentence = with_regrets(summary, auto=regret, static=0.5).sentences()[0]
    assert f", {share} less than the best simple baseline, static" in sentence


def test_with_a_budget_the_report_says_what_its_shares_are_shares_of(recording):
    pace = Pace(budget=24.0)
    backtest = Backtest(recording, RowRange(0, 400), RowRange(1000, 1096), pace=pace)
    summary = ComparisonSummary(backtest, [backtest.run("round-robin", {}, 1)])
    activations = summary.results[0].activations[0]
    share = f"{100 * activations / 96:.1f} %"
    expected = f": {share} of the activations of round-robin without a budget, and "
    assert activations < 96
    assert expected in summary.sentences()[-1]
    caption = figures.raster_figure(summary, summary.rows[0]).caption
    assert f" of the {activations} intervals with an activation; " in caption


def test_a_sensor_that_is_as_hot_as_the_hottest_counts_as_the_hottest(recording):
    even = changed(recording, values=np.repeat(recording.values[:, :1], 46, axis=1))
    even.values[0] += np.arange(46)  # the training days are not all equal
    backtest = backtest_of(changed(even, observed=np.ones_like(recording.observed)))
    summary = ComparisonSummary(backtest, [backtest.run("round-robin", {}, 1)])
    caption = figures.raster_figure(summary, summary.rows[0]).caption
    assert caption.startswith("round-robin activated the hottest sensor in 100 % of the intervals;")


def test_share_is_written_as_a_percentage():
    assert percent(0.0217, 1) == "2.2 %"


# --- commands -----------------------------------------------------------------------------------


def test_only_json_is_on_stdout(tmp_path):
    arguments = ("replay", "--policy", "round-robin", "--seeds", "2", "--json")
    result = run(*arguments, "--out", str(tmp_path / "deep" / "report"))
    (printed,) = json.loads(result.stdout)["results"]
    assert printed["policy"] == "round-robin"
    assert (tmp_path / "deep" / "report" / "report.html").is_file()
    assert "The report is" in result.stderr


def test_unwritable_report_directory_is_rejected_before_the_work(tmp_path):
    (tmp_path / "file").write_text("")
    result = run("compare", "--out", str(tmp_path / "file"))
    assert result.exit_code == 2
    assert "--out must name a directory" in result.stderr


SEVERAL_POLICIES = "et-gp-ucb,sw-gp-ucb,w-dbo,d-ucb,round-robin,random,static"


@pytest.mark.slow
@pytest.mark.acceptance(21)
def test_compare_reports_intervals_activations_seeds_and_figures(tmp_path):
    """Demonstration 21 of PRODUCT.md, on the sample."""
    result = run("compare", "--policies", SEVERAL_POLICIES, "--seeds", "3", "--out", str(tmp_path))
    text = (tmp_path / "results.md").read_text("utf-8")
    table = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("|")]
    rows = {row[0].partition(" ")[0]: row for row in table[2:]}
    replayed = [*SEVERAL_POLICIES.split(","), "kalman-ucb"]
    assert set(rows) == {*replayed, "always-on"}
    for name in replayed:
        low, high = map(float, rows[name][2].split(" to "))
        assert low <= float(rows[name][1]) <= high  # mean regret and its 95 % interval
        assert rows[name][3:5] == ["288", "2.2 %"]  # activations, and share of always-on
    assert (
        "Each policy activated a sensor 288 times: as often as round-robin, and 2.2 % of the 13248 "
        "activations of always-on, which activates all sensors." in text
    )
    assert "Seeds: 0 to 2" in text
    lines = read((tmp_path / "results.csv").read_text("utf-8"))
    assert [(line["policy"], line["seed"]) for line in lines] == [
        (name, seed) for name in replayed for seed in "012"
    ]
    pictures = Checker((tmp_path / "report.html").read_text("utf-8")).of("svg")
    for name in rows.keys() - {"always-on"}:
        assert any(name in each.get("aria-label", "") for each in pictures)
    others = [name for name in replayed if name not in SIMPLE_BASELINES]
    best = min(others, key=lambda name: float(rows[name][1]))
    regret = rows["kalman-ucb"][1]
    for printed in (result.stdout, text):
        assert f"A simple baseline is the best: kalman-ucb has a regret of {regret} " in printed
        assert f"The best of those policies is {best} with {rows[best][1]}." in printed


@pytest.mark.acceptance(21)
def test_report_says_when_a_static_choice_is_better_than_a_bandit(recording, tmp_path):
    backtest = backtest_of(recording)
    write(backtest, [backtest.run(name, {}, 2) for name in ("d-ucb", "static")], tmp_path, COMMAND)
    text = (tmp_path / "results.md").read_text("utf-8")
    assert "A simple baseline is the best: static" in text
    assert (
        "Every policy that is not a simple baseline has more regret. The best of those policies is "
        "d-ucb" in text
    )


@pytest.mark.acceptance(21)
def test_compare_says_when_the_textbook_baseline_is_the_best_even_if_it_is_not_named(tmp_path):
    result = run("compare", "--policies", "d-ucb,static", "--seeds", "2", "--out", str(tmp_path))
    for text in (result.stdout, (tmp_path / "results.md").read_text("utf-8")):
        assert "A simple baseline is the best: kalman-ucb has a regret of " in text
        assert (
            "Every policy that is not a simple baseline has more regret. The best of those "
            "policies is d-ucb" in text
        )


# --- progress -----------------------------------------------------------------------------------


@pytest.fixture
def clock(monkeypatch):
    """A clock that the test sets, as a list of one number."""
    now = [0.0]
    monkeypatch.setattr(output, "monotonic", lambda: now[0])
    return now


def steps_at(clock, capsys, times, length):
    with output.progress("counting", length) as step:
        for done, at in enumerate(times, 1):
            clock[0] = at
            step(done)
    captured = capsys.readouterr()
    assert captured.out == ""
    return captured.err.splitlines()


@given(st.lists(st.floats(0.0, 60.0), min_size=1, max_size=40).map(sorted))
def test_without_a_terminal_progress_is_printed_every_few_seconds(times):
    now = [0.0]
    printed = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(output, "monotonic", lambda: now[0])
        patch.setattr(output.click, "echo", lambda text, err: printed.append((now[0], text, err)))
        lines = output._line_step("counting", len(times))
        for done, at in enumerate(times, 1):
            now[0] = at
            lines(done)
    assert all(err for _, _, err in printed)
    assert bool(printed) == (times[-1] >= output.FIRST_PROGRESS_S)
    if printed:
        assert printed[0][0] >= output.FIRST_PROGRESS_S
        assert printed[-1][1] == f"counting: {len(times)} of {len(times)}"
        assert all(
            after - before >= output.PROGRESS_INTERVAL_S
            for (before, *_), (after, *_) in pairwise(printed[:-1])
        )


def test_progress_of_quick_work_is_not_printed(clock, capsys):
    assert steps_at(clock, capsys, [0.1, 0.5, 1.9], 3) == []


def test_progress_of_slow_work_is_printed(clock, capsys):
    lines = steps_at(clock, capsys, [1.0, 3.0, 4.0, 9.0, 9.5], 5)
    assert lines == ["counting: 2 of 5", "counting: 4 of 5", "counting: 5 of 5"]


def test_progress_of_unknown_length_is_a_count(clock, capsys):
    assert steps_at(clock, capsys, [3.0], None) == ["counting: 1"]


SCRIPT = """
from edge_tvbo.cli.output import progress
for label, length in (("counting", 3000), ("reading", None)):
    with progress(label, length) as step:
        for done in range(1, 4):
            step(done * 1000)
print("done")
"""


def test_on_a_terminal_progress_is_a_bar_on_stderr_or_a_count_if_its_length_is_unknown():
    master, slave = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "80"}
    command = [sys.executable, "-c", SCRIPT]
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=slave, env=environment, check=True
    )
    os.close(slave)
    drawn = os.read(master, 65536).decode()
    os.close(master)
    bar, _, count = drawn.partition("reading")
    assert done.stdout == b"done\n"
    assert "counting" in bar
    assert "100%" in bar
    assert "###" in bar
    assert "reading 3,000" in count
    assert "100%" not in count.partition("3,000")[0]


def test_summary_of_policies_without_regret(tmp_path):
    """All sensors but one are far colder, so that each policy that learns finds the best sensor."""
    lines = ["time,a,b,c"]
    lines += [
        f"2026-01-{1 + t // 24:02d}T{t % 24:02d}:00:00,{20 + t % 3},{30 + t % 5},19"
        for t in range(60)
    ]
    (tmp_path / "warm.csv").write_text("\n".join(lines), encoding="utf-8")
    source = ["--dataset", "csv", "--data-dir", str(tmp_path / "warm.csv")]
    result = CliRunner().invoke(
        main, ["compare", *source, "--policies", "auto,kalman-ucb,static", "--seeds", "1"]
    )
    assert result.exit_code == 0, result.output
    assert "0.000 standard deviations" in result.output
