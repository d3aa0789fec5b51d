"""The circle: a daemon records its readings, and export, fit and compare use them."""

import json
from itertools import groupby

import msgspec
import pytest
from click.testing import CliRunner
from edge_tvbo_adapters.datasets import exports, lab_sample
from edge_tvbo_adapters.storage.reading_db import read_readings
from support.gateway import Daemon, Gateway, program

from edge_tvbo.cli import main
from edge_tvbo.errors import DataError
from edge_tvbo.messages.formatting import rfc3339
from edge_tvbo.simulation.backtest import Backtest
from edge_tvbo.simulation.row_range import RowRange
from edge_tvbo.training import model_file

CONFIG = """
instance = "lab"
[mqtt]
port = {port}
[state]
dir = "state"
checkpoint = "1s"
[fields.temperature]
unit = "°C"
interval = "10min"
max_age = "366d"
max_rate = 1e6
faults = "off"
policy = {{ name = "round-robin" }}
kernel = {{ name = "exchangeable", variance = 7, noise_variance = 0.1, mean = 22 }}
sensors = {sensors}
reading = {{ topic = "lab/{{sensor}}/t", payload = "json", value = "t", time = "ts" }}
"""
FEWER = 16  # of the laboratory's 46 sensors
TRAINING_DAYS = ("--train", "2026-03-02:2026-03-07")  # the others are days 7 and 8


@pytest.fixture
def daemon(tmp_path):
    daemon = Daemon(tmp_path)
    yield daemon
    daemon.close()


def laboratory():
    """Return the recording of the laboratory with `FEWER` sensors."""
    lab = lab_sample.dataset.load([])
    assert lab.replies is None
    some = slice(0, FEWER)
    return msgspec.structs.replace(
        lab,
        sensors=lab.sensors[some],
        values=lab.values[:, some],
        observed=lab.observed[:, some],
        positions=lab.positions[some],
    )


def recorded(directory, instance, field):
    try:
        return read_readings(str(directory / "state"), instance, field)
    except DataError:  # there is no file yet
        return []


def run(*arguments):
    """Run a command of `edge-tvbo` in this process."""
    return CliRunner().invoke(main, list(map(str, arguments)), catch_exceptions=False)


def compared(*arguments):
    """Return the regret of `auto` on days 7 and 8, as `compare` prints it."""
    done = run("compare", *arguments, *TRAINING_DAYS, "--policies", "auto", "--json")
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)["results"][0]["regret_per_interval"]["mean"]


def with_model(lab, model):
    """Return the regret of `auto` with a model file on days 7 and 8 of the laboratory."""
    backtest = Backtest(lab, RowRange(0, 6 * 144), RowRange(6 * 144, 8 * 144))
    backtest.structured_field = model_file.read(model)
    return backtest.run("auto", {}, seeds=2).regret.mean()


def test_eight_days_are_recorded_exported_fitted_and_compared(
    mosquitto, peer, daemon, tmp_path, record_property
):
    """Sensors of the laboratory report by themselves, each a few seconds apart."""
    lab = laboratory()
    broker = mosquitto("allow_anonymous true\nmax_queued_messages 0\nmax_queued_bytes 0\n")
    broker.start()
    daemon.config.write_text(CONFIG.format(port=broker.port, sensors=json.dumps(lab.sensors)))
    daemon.start()
    reporters = peer(broker.port, "edge_tvbo/lab/status")
    daemon.wait(lambda: b"online" in reporters.on("edge_tvbo/lab/status"))
    for row, (values, observed) in enumerate(zip(lab.values, lab.observed, strict=True)):
        for arm in observed.nonzero()[0]:
            at = lab.start + row * lab.interval + 2 * int(arm) + row % 5
            payload = msgspec.json.encode({"t": float(values[arm]), "ts": at})
            reporters.client.publish(f"lab/{lab.sensors[arm]}/t", payload, qos=1)
    readings = int(lab.observed.sum())
    sizes = [0]

    def is_recorded():
        """Count the readings again only if the database has grown: this takes long."""
        sizes.append(sum(each.stat().st_size for each in (tmp_path / "state").glob("*readings*")))
        return sizes[-1] != sizes[-2] and len(recorded(tmp_path, "lab", "temperature")) == readings

    daemon.wait(is_recorded, within=200)
    daemon.stop()

    table = tmp_path / "lab.csv"
    exported = run("export", str(daemon.config), "--output", str(table))
    assert f"{readings} readings of temperature" in exported.output, exported.output

    wide = tmp_path / "original.csv"  # the same readings, which no daemon has recorded
    wide.write_text("".join(exports.csv_lines(lab)))
    regrets = {"compare": compared(str(daemon.config))}
    for source in (daemon.config, table, wide):
        model = tmp_path / f"{source.name}.json"
        fitted = run("fit", str(source), *TRAINING_DAYS, "--output", str(model))
        assert fitted.exit_code == 0, fitted.output
        regrets[source.name] = with_model(lab, model)
    record_property("regret of days 7 and 8", str(regrets))
    assert list(regrets.values()) == [pytest.approx(regrets[wide.name], rel=0.01)] * len(regrets)

    model = tmp_path / "own.model.json"
    fitted = run("fit", str(daemon.config), "--output", str(model))
    assert f"based on {readings} readings of {FEWER} sensors (in 1152 of 1152" in fitted.output
    text = daemon.config.read_text()
    kernel = next(line for line in text.splitlines() if line.startswith("kernel"))
    daemon.config.write_text(text.replace(kernel, f'model = "{model.name}"'))
    assert run("check", str(daemon.config)).exit_code == 0


def test_accepted_readings_are_recorded_over_a_reload_and_a_kill(tmp_path, mosquitto, peer):
    broker = mosquitto()
    broker.start()
    gateway = Gateway(tmp_path, broker.port, peer)
    try:
        gateway.start()
        gateway.wait_for_activations(5)
        reporter = peer(broker.port, "k/+/t")
        reporter.client.publish("k/b/t", "nonsense")
        reporter.client.publish("k/b/t", "24.5")
        gateway.wait(lambda: 24.5 in [each.value for each in recorded(tmp_path, "k", "lab")])
        gateway.process.send_signal(1)
        gateway.wait_for_log("reload: done")
        before = len(recorded(tmp_path, "k", "lab"))
        gateway.wait(lambda: len(recorded(tmp_path, "k", "lab")) > before + 5)
        gateway.kill()
        after = len(recorded(tmp_path, "k", "lab"))
        gateway.start()
        gateway.wait(lambda: len(recorded(tmp_path, "k", "lab")) > after)
        gateway.stop()
    finally:
        gateway.close()
    readings = recorded(tmp_path, "k", "lab")
    assert {each.sensor for each in readings} <= {"a", "b", "c"}
    assert all(20 <= each.value <= 26 for each in readings)
    assert len(readings) <= len(gateway.activations) + 1


def test_readings_are_recorded_with_the_unit_that_the_field_has_at_the_time(
    tmp_path, mosquitto, peer
):
    broker = mosquitto()
    broker.start()
    gateway = Gateway(tmp_path, broker.port, peer)
    text = gateway.config.read_text()
    try:
        for unit, act in (("°C", gateway.start), ("°F", lambda: gateway.process.send_signal(1))):
            gateway.config.write_text(
                text.replace("[fields.lab]", f'[fields.lab]\nunit = "{unit}"')
            )
            act()
            gateway.wait(lambda unit=unit: unit in units_recorded(tmp_path))
        gateway.stop()
    finally:
        gateway.close()
    assert units_recorded(tmp_path) == ["°C", "°F"]
    (since, *_) = [each.at for each in recorded(tmp_path, "k", "lab") if each.unit == "°F"]
    assert f"add  --from {rfc3339(since)} " in program("fit", str(gateway.config)).stderr


def units_recorded(directory):
    """Return the units of the recorded readings in their order, without repetitions."""
    return [unit for unit, _ in groupby(each.unit for each in recorded(directory, "k", "lab"))]


def test_no_readings_are_recorded_if_that_is_off(tmp_path, mosquitto, peer):
    broker = mosquitto()
    broker.start()
    gateway = Gateway(tmp_path, broker.port, peer)
    text = gateway.config.read_text().replace(
        'checkpoint = "1s"', 'checkpoint = "1s"\nreadings = "off"'
    )
    gateway.config.write_text(text)
    try:
        gateway.start()
        gateway.wait_for_activations(8)
        gateway.stop()
    finally:
        gateway.close()
    assert not list((tmp_path / "state").glob("*readings*"))
    assert "no recorded readings yet" in program("export", str(gateway.config)).stderr


def test_a_full_disk_is_logged_once_and_the_daemon_decides(tmp_path, mosquitto, peer):
    broker = mosquitto()
    broker.start()
    gateway = Gateway(tmp_path, broker.port, peer)
    gateway.configure(dir="/dev/null/x")
    try:
        gateway.start()
        gateway.wait_for_activations(12)
        gateway.stop()
    finally:
        gateway.close()
    assert gateway.log_text().count("readings: cannot be stored") == 1
