"""The demonstration: a broker, forty-six sensors, the controller, and what it was worth."""

from collections.abc import Callable, Iterable
from pathlib import Path

from edge_tvbo import plugins
from edge_tvbo.errors import DataError
from edge_tvbo.messages.commands import Command, PublishState, Record
from edge_tvbo.ports import Broker
from edge_tvbo.research import reports
from edge_tvbo.simulation import dataset_lookup, mqtt_replay
from edge_tvbo.simulation.backtest import Backtest, Result, table
from edge_tvbo.simulation.replay import split

REAL, SYNTHETIC = "intel-lab", "lab-sample"
BASELINES = ("random", "round-robin", "static")
SEEDS = 8


class Demo:
    """Replays the last two days of a recording over MQTT, and sums up.

    Parameters
    ----------
    say : callable
        Prints a line; takes ``nl=False`` to stay on it, as `click.echo` does.
    live : bool
        Whether the output is a terminal, where one line is overwritten.
    """

    def __init__(self, say: Callable[..., None], *, live: bool) -> None:
        self._say = say
        self._live = live
        self._text = ""

    def run(
        self,
        out: Path,
        speed: float,
        policy: str,
        dataset: str,
        data_dir: Iterable[str],
    ) -> None:
        """Run it all, and leave a report in `out`."""
        data_dir = list(data_dir)
        backtest = self._backtest(dataset, data_dir)
        arguments = ["--dataset", backtest.recording.name, "--gaps", "silent"]
        arguments += [word for each in data_dir for word in ("--data-dir", each)]
        reports.prepare(out)
        online = self._online(backtest, policy, speed, arguments)
        offline = backtest.run(policy, {}, 1)
        same = online.digests == offline.digests
        self._say(
            f"The same days without a broker give "
            f"{'the same' if same else 'OTHER'} decisions ({offline.digests[0][:12]}).\n"
        )
        results = [online, *(backtest.run(name, {}, SEEDS) for name in BASELINES)]
        results.append(backtest.oracle())
        self._say(table(results))
        command = f"edge-tvbo demo --dataset {dataset} --policy {policy}"
        self._say(f"\nThe report is {reports.write(backtest, results, out, command)}")

    def _backtest(self, dataset: str, data_dir: list[str]) -> Backtest:
        recording = dataset_lookup.recording(dataset, data_dir)
        train_span, test_span = split(recording, 0.75)
        sensors = len(recording.sensors)
        self._say(f"{recording.name}: {sensors} sensors. {recording.source}")
        return Backtest(recording, train_span, test_span)

    def _online(
        self, backtest: Backtest, policy: str, speed: float, arguments: list[str]
    ) -> Result:
        controller = backtest.controller(policy, {}, seed=0)
        with plugins.load("brokers", "default")() as running:
            broker = Broker(instance="demo", host=running.host, port=running.port)
            self._say(f"Broker: {running.name} on {running.host}:{running.port}")
            with mqtt_replay.nodes(arguments, broker):
                intervals = backtest.test_span.last - backtest.test_span.first
                seconds = intervals * backtest.recording.interval / speed
                self._say(f"Replaying {intervals} intervals over MQTT in about {seconds:.0f} s")
                tally = mqtt_replay.over_mqtt(backtest, controller, broker, speed, self._watch)
        if self._live:
            self._say("")
        return backtest.result(policy, {}, [tally.run()])

    def _watch(self, command: Command) -> None:
        match command:
            case PublishState(decision=decision):
                self._text = f"{decision.at}  {decision.text}"
            case Record(value=value, reset=reset):
                answer = "no answer" if value is None else f"measured {value:.2f}"
                line = f"{self._text}; {answer}{', model reset' if reset else ''}"
                self._say(f"\r\x1b[2K{line[:118]}" if self._live else line, nl=not self._live)
            case _:
                pass


def default_dataset(data_dir: Iterable[str]) -> str:
    """Give the real laboratory where its data are, the synthetic one elsewhere."""
    try:
        dataset_lookup.recording(REAL, data_dir)
    except DataError:
        return SYNTHETIC
    return REAL
