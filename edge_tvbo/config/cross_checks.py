"""Cross checks of the configuration: compare settings with each other and with files on disk."""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from edge_tvbo.config import credentials, sensor_positions
from edge_tvbo.config.controller_settings import ROUNDING
from edge_tvbo.config.errors import KeyPath, Report, did_you_mean, dotted, listed, shown
from edge_tvbo.config.field_types import OWN_TOPICS, Secret, duration_text
from edge_tvbo.config.reader import Values
from edge_tvbo.errors import Code
from edge_tvbo.policy.settings import PolicySettings

RESERVED = ("cmd", "health", "response", "status")  # topic levels of the daemon itself
DEFAULT_COMMANDS = {  # payloads of commands by mode; "1" for every other mode
    "sleepy": '{"seq": {interval}, "expires_at": {expires_at}}',
    "lorawan": "",  # the payload format makes the command
}


class CrossChecks:
    """Checks that compare settings, and defaults that depend on other settings.

    `payloads` contains the names of the payload formats. If it is None, the names of formats in the
    configuration are not checked.
    """

    def __init__(
        self,
        report: Report,
        base: Path,
        payloads: Collection[str] | None,
    ) -> None:
        self.report = report
        self.base = base
        self.payloads = payloads

    def apply(self, good: Values) -> None:
        """Check the settings `good` against each other, and add the missing defaults to `good`.

        Each setting in `good` has a valid value by itself.
        """
        self._mqtt(good.get("mqtt", {}))
        self._secret_from_file(good.get("metrics", {}), ("metrics",), "token")
        self._state(good.get("state", {}))
        fields = good.get("fields")
        if fields == {}:
            self.report.add(("fields",), "is empty; add a table [fields.<name>]", code=Code.MISSING)
        for name, field in (fields or {}).items():
            path = ("fields", name)
            if name in RESERVED:
                self.report.add(
                    path,
                    f"is a reserved name, because {OWN_TOPICS}/<instance>/{name} is a topic of the "
                    "daemon; choose another name",
                )
            self._times(field, path)
            self._prior(field, path)
            self._sensors(field, path)
            self._sources(field, path)
            self._policy(field, (*path, "policy"))
            self._wire(field, path)
            if field.get("energy"):
                self._energy(field["energy"], field, (*path, "energy"))
        self._between(fields or {})
        self._silence(good.get("mqtt", {}), fields or {})

    def _mqtt(self, mqtt: Values) -> None:
        self._login(mqtt, ("mqtt",))
        if mqtt.get("readonly"):
            self._login(mqtt["readonly"], ("mqtt", "readonly"))
        if mqtt.get("tls"):
            credentials.check_tls(mqtt["tls"], self.base, self.report)
        reconnect = mqtt.get("reconnect", {})
        if reconnect.get("min", 0) > reconnect.get("max", float("inf")):
            longest = duration_text(reconnect["max"])
            self.report.add(
                ("mqtt", "reconnect", "min"),
                f"is {duration_text(reconnect['min'])}; allowed: at most reconnect.max, {longest}",
                code=Code.CONTRADICTION,
            )

    def _login(self, login: Values, path: KeyPath) -> None:
        file = login.get("password_file")
        self._secret_from_file(login, path, "password")
        if login.get("password") and "username" in login and login["username"] is None:
            self.report.add(
                (*path, "password_file" if file else "password"),
                "is set without username; add username",
                code=Code.CONTRADICTION,
            )

    def _secret_from_file(self, table: Values, path: KeyPath, name: str) -> None:
        """Read the secret `name` from its file, if the table names a file."""
        key, file = f"{name}_file", table.get(f"{name}_file")
        if table.get(name) and file:
            self.report.add(
                (*path, key),
                f"is set together with {name}; remove one of them",
                code=Code.CONTRADICTION,
            )
        elif file:
            table[key] = credentials.credential_path(file, self.base, self.report)
            table[name] = self._secret(table[key], (*path, key), name)

    def _state(self, state: Values) -> None:
        if state.get("history") and state.get("dir") == "":
            self.report.add(
                ("state", "history"),
                "is set without state.dir; set dir to the directory for the history",
                code=Code.CONTRADICTION,
            )
        if not state.get("dir"):
            return
        directory = self.base / state["dir"]
        state["dir"] = str(directory)
        try:
            if directory.exists() and not directory.is_dir():
                self.report.add(
                    ("state", "dir"),
                    f"is {shown(str(directory))}, a file; allowed: a directory",
                    code=Code.NAMED_FILE,
                )
        except OSError:
            pass  # the daemon reports it when it needs the directory

    def _silence(self, mqtt: Values, fields: Mapping[str, Values]) -> None:
        """Set the default of the setting `silence` in the table [mqtt].

        The default is 3 times the longest interval of the fields in mode "live", but at least 60 s.
        If no such field has an interval of fixed length, the default is None.
        """
        live = [each for each in fields.values() if each.get("activate", {}).get("mode") == "live"]
        intervals = [each.get("interval") for each in live]
        timed = [each for each in intervals if isinstance(each, int | float)]
        mqtt.setdefault("silence", max(3 * max(timed), 60.0) if timed else None)

    def _secret(self, file: Path, key: KeyPath, name: str) -> Secret | None:
        try:
            text = file.read_text(encoding="utf-8").rstrip("\r\n")
        except (OSError, ValueError) as error:
            self.report.add(
                key,
                f"is {shown(str(file))}, which {sensor_positions.unreadable(error)}",
                code=Code.NAMED_FILE,
            )
            return None
        self.report.warnings += credentials.access_warnings(file)
        if not text:
            self.report.add(
                key,
                f"is {shown(str(file))}, which is an empty file; write the {name} to it",
                code=Code.NAMED_FILE,
            )
        return Secret(text)

    def _times(self, field: Values, path: KeyPath) -> None:
        if "interval" not in field:
            return
        interval = field["interval"]
        on_reading = interval == "on-reading"
        sensors = self._per_interval(field, path)
        field.setdefault("reply_timeout", 120.0 if on_reading else interval / max(5, sensors))
        field.setdefault("max_age", 600.0 if on_reading else interval)
        if not on_reading and field["reply_timeout"] > interval:
            self.report.add(
                (*path, "reply_timeout"),
                f"is {duration_text(field['reply_timeout'])}; allowed: at most the interval, "
                f"{duration_text(interval)}",
                code=Code.CONTRADICTION,
            )
        elif not on_reading and field["reply_timeout"] * sensors > interval * (1 + ROUNDING):
            self.report.add(
                (*path, "reply_timeout"),
                f"is {duration_text(field['reply_timeout'])}, but up to {sensors} sensors are "
                "activated in an interval, one after the other; allowed: at most the interval / "
                f"{sensors}, {duration_text(interval / sensors)}",
                'next_activation = "at-once" allows the whole interval',
                code=Code.CONTRADICTION,
            )

    def _per_interval(self, field: Values, path: KeyPath) -> int:
        """Check how many sensors are activated in an interval.

        Return the highest number of sensors that are activated one after the other.
        """
        survey, each = field.get("survey"), field.get("per_interval", 1)
        planned = {(*path, "per_interval"): each}
        if survey:
            planned[*path, "survey", "per_interval"] = survey.get("per_interval", 2)
        M = len(field.get("sensors", ()))
        for key, number in planned.items():
            if number > 1 and field["interval"] == "on-reading":
                self.report.add(
                    key,
                    f'is {number}, which cannot be combined with interval = "on-reading": each '
                    "reply begins the next interval, which activates one sensor; set a duration, "
                    'such as interval = "10min"',
                    code=Code.CONTRADICTION,
                )
        if each > M > 0:
            self.report.add(
                (*path, "per_interval"),
                f"is {each}; allowed: at most the number of sensors, {M}",
                code=Code.CONTRADICTION,
            )
        if survey and survey.get("per_interval", each + 1) <= each:
            self.report.add(
                (*path, "survey", "per_interval"),
                f"is {survey['per_interval']}; allowed: more than the {each} of per_interval",
                code=Code.CONTRADICTION,
            )
        return 1 if field.get("next_activation") == "at-once" else max(planned.values())

    def _prior(self, field: Values, path: KeyPath) -> None:
        if not {"model", "kernel", "positions"} <= set(field):
            return
        model, kernel, positions = field["model"], field["kernel"], field["positions"]
        if model and kernel:
            self.report.add(
                (*path, "kernel"),
                "is set together with model; remove one of them",
                code=Code.CONTRADICTION,
            )
        if not (model or kernel):
            self.report.add(
                path,
                "has neither model nor kernel; `edge-tvbo fit` writes a model, and"
                ' kernel = { name = "exchangeable", ... } needs no recorded days',
                code=Code.MISSING,
            )
        if kernel:
            self._kernel(kernel, positions, (*path, "kernel"))
        if model:
            field["model"] = self._file(self.base / model, (*path, "model"))

    def _kernel(self, kernel: Values, positions: object, path: KeyPath) -> None:
        if kernel.get("name", "exchangeable") == "exchangeable":
            return
        if kernel.get("length_scale", 1.0) is None:
            self.report.add(
                (*path, "length_scale"),
                "is missing; allowed: a number, above 0",
                "Distance over which the correlation falls, in m",
                code=Code.MISSING,
            )
        if positions is None:
            self.report.add(
                path,
                'needs positions = { id = [x, y], ... }; name = "exchangeable" needs none',
                code=Code.MISSING,
            )

    def _file(self, file: Path, path: KeyPath) -> Path:
        try:
            with file.open("rb"):
                pass
        except (OSError, ValueError) as error:
            self.report.add(
                path,
                f"is {shown(str(file))}, which {sensor_positions.unreadable(error)}",
                code=Code.NAMED_FILE,
            )
        return file

    def _sensors(self, field: Values, path: KeyPath) -> None:
        sensors = field.get("sensors", ())
        seen: dict[str, int] = {}
        for index, sensor in enumerate(sensors):
            if seen.setdefault(sensor, index) != index:
                self.report.add(
                    (*path, "sensors", index),
                    f"repeats the id {shown(sensor)}; each id is allowed once",
                    code=Code.TWICE,
                )
        if field.get("positions") is not None:
            field["positions"] = sensor_positions.of_sensors(
                field["positions"], self.base, tuple(seen), (*path, "positions"), self.report
            )

    def _sources(self, field: Values, path: KeyPath) -> None:
        """Check which sensors each source has, and add the missing defaults of the sources."""
        reading, sources = field.get("reading", {}), field.get("readings", ({},))
        if reading is None and not sources:
            self.report.add(
                (*path, "reading"),
                "is missing; allowed: a table",
                "Topic and format of the readings; with several sources, tables "
                f"[[{dotted((*path, 'readings'))}]]",
                code=Code.MISSING,
            )
        elif reading is not None and sources:
            self.report.add(
                (*path, "readings"),
                "is set together with reading; remove one of them",
                code=Code.CONTRADICTION,
            )
        activate = field.get("activate", {})
        mode = activate.get("mode", "advise")
        activate.setdefault("payload", DEFAULT_COMMANDS.get(mode, "1"))
        for source in sources:
            for key in {"topic", "payload"} & set(activate):
                source.get("activate", {}).setdefault(key, activate[key])
        self._sensors_of_sources(sources, field, (*path, "readings"))

    def _sensors_of_sources(
        self, sources: tuple[Values, ...], field: Values, path: KeyPath
    ) -> None:
        """Check that each sensor has one source; a source without `sensors` gets all others."""
        sensors, named = field.get("sensors", ()), dict[str, int]()
        for index, source in enumerate(sources):
            for place, sensor in enumerate(source.get("sensors", ())):
                key = (*path, index, "sensors", place)
                if sensor not in sensors:
                    self.report.add(
                        key,
                        f"is {shown(sensor)}, which is not one of the sensors",
                        did_you_mean(sensor, sensors),
                        code=Code.UNKNOWN_NAME,
                    )
                elif sensor in named:
                    first = dotted((*path, named[sensor]))
                    self.report.add(
                        key,
                        f"is {shown(sensor)}, which {first} already has; each sensor has one "
                        "source",
                        code=Code.TWICE,
                    )
                named.setdefault(sensor, index)
        others = tuple(sensor for sensor in dict.fromkeys(sensors) if sensor not in named)
        open_ended = [index for index, each in enumerate(sources) if "sensors" not in each]
        for index in open_ended[1:]:
            self.report.add(
                (*path, index, "sensors"),
                f"is missing, and so it is in {dotted((*path, open_ended[0]))}; only one source "
                "can have all the other sensors",
                code=Code.MISSING,
            )
        for index in open_ended[:1]:
            sources[index]["sensors"] = others
            if sensors and not others:
                self.report.add(
                    (*path, index),
                    "has no sensor, because the other sources name all of them; remove this table "
                    "or name its sensors",
                    code=Code.CONTRADICTION,
                )
        if sources and others and not open_ended and "readings" in field:
            self.report.add(
                path,
                f"has no source for the sensors {listed(others)}; name them in the `sensors` of a "
                "table, or leave `sensors` out of one table",
                code=Code.MISSING,
            )

    def _policy(self, field: Values, path: KeyPath) -> None:
        policy: PolicySettings | None = field.get("policy")
        if policy is None:
            return
        found = list(policy.conflicts())
        if field.get("model", "") is None and {"sensors", "positions"} <= set(field):
            found += policy.field_conflicts(field["sensors"], field["positions"] is not None)
        for conflict in found:
            key = (*path, conflict.parameter)
            self.report.add(key, conflict.problem, code=Code.CONTRADICTION)

    def _unknown(self, path: KeyPath, name: str, what: str, known: Collection[str]) -> None:
        self.report.add(
            path,
            f"is {shown(name)}; allowed {what}s: {listed(sorted(known), max_words=99)}",
            did_you_mean(name, known),
            code=Code.UNKNOWN_NAME,
        )

    def _wire(self, field: Values, path: KeyPath) -> None:
        for key, source in _sources_of(field):
            self._source(source, (*path, *key))
        for sensors in _senders(field):
            self._topic_names(sensors, field, path)
        for key, command in _commands_of(field):
            mode = field.get("activate", {}).get("mode", "advise")
            if mode != "advise" and command.get("topic", "") is None:
                self.report.add(
                    (*path, *key, "topic"),
                    f"is missing; mode {mode} needs a topic with {{sensor}}",
                    code=Code.MISSING,
                )
        for sensor in field.get("names", ()):
            if sensor not in field.get("sensors", (sensor,)):
                self.report.add(
                    (*path, "names", sensor),
                    "is not one of the sensors",
                    did_you_mean(sensor, field["sensors"]),
                    code=Code.UNKNOWN_NAME,
                )
        for key, table in (*_sources_of(field), *_commands_of(field)):
            topic = table.get("topic")
            if topic and topic.startswith("{sensor}/") and OWN_TOPICS in field.get("sensors", ()):
                self.report.add(
                    (*path, *key, "topic"),
                    f"begins with {{sensor}}, so the sensor {OWN_TOPICS} would use topics of the "
                    "daemon; rename the sensor, or change the topic",
                )

    def _source(self, reading: Values, path: KeyPath) -> None:
        payload = reading.get("payload")
        if payload is not None and self.payloads is not None and payload not in self.payloads:
            self._unknown((*path, "payload"), payload, "format", self.payloads)
        if reading.get("scale") == 0:
            self.report.add(
                (*path, "scale"),
                "is 0, so every reading would have the same value; allowed: any other number",
            )

    def _topic_names(self, sensors: Collection[str], field: Values, path: KeyPath) -> None:
        """Check that no two of the `sensors` have the same name in topics."""
        first: dict[str, str] = {}
        for sensor in dict.fromkeys(sensors):
            name = field.get("names", {}).get(sensor, sensor)
            other = first.setdefault(name, sensor)
            if other != sensor:
                key = sensor if sensor in field["names"] else other
                self.report.add(
                    (*path, "names", key),
                    f"is {shown(name)}, so {other} and {sensor} have the same topics; each sensor "
                    "needs its own name",
                    code=Code.TWICE,
                )

    def _energy(self, energy: Values, field: Values, path: KeyPath) -> None:
        if field.get("interval") == "on-reading":
            self.report.add(
                path,
                'cannot be combined with interval = "on-reading", which activates a sensor in '
                'every interval; set a duration, such as interval = "10min"',
                code=Code.CONTRADICTION,
            )
        for sensor in energy.get("sensors", ()):
            if sensor not in field.get("sensors", (sensor,)):
                self.report.add(
                    (*path, "sensors", sensor),
                    "is not one of the sensors",
                    did_you_mean(sensor, field["sensors"]),
                    code=Code.UNKNOWN_NAME,
                )
        self._budgets(energy, field.get("sensors", ()), path)
        self._battery(energy.get("battery") or {}, field, path[:-1])
        payload = (energy.get("battery") or {}).get("payload")
        if payload is not None and self.payloads is not None and payload not in self.payloads:
            self._unknown((*path, "battery", "payload"), payload, "format", self.payloads)

    def _budgets(self, energy: Values, sensors: Collection[str], path: KeyPath) -> None:
        """Check that each budget pays for one activation; a sensor's own budget may be 0."""
        if not {"cost", "budget", "field_budget", "sensors"} <= set(energy):
            return
        usual = float(energy["cost"])
        costs = dict.fromkeys((*sensors, *energy["sensors"]), usual)
        for sensor, own in energy["sensors"].items():
            if own.get("cost") is not None:
                costs[sensor] = own["cost"]
        budgets: dict[KeyPath, tuple[float | None, float]] = {
            (*path, "budget"): (energy["budget"], usual),
            (*path, "field_budget"): (energy["field_budget"], min(costs.values(), default=0.0)),
        }
        for sensor, own in energy["sensors"].items():
            key = "cost" if own.get("budget") is None else "budget"
            budget = energy["budget"] if own.get("budget") is None else own["budget"]
            if own.get("budget") != 0:
                budgets[*path, "sensors", sensor, key] = (budget, costs[sensor])
        for setting, (budget, cost) in budgets.items():
            if budget is not None and budget < cost:
                self.report.add(
                    setting,
                    f"does not allow any activation: the budget of a period is {budget:g}, and an "
                    f"activation costs {cost:g}; raise the budget or lower the cost",
                    code=Code.CONTRADICTION,
                )

    def _battery(self, battery: Values, field: Values, path: KeyPath) -> None:
        if not battery.get("topic"):
            return
        readings = [reading for _, reading in _sources_of(field)]
        keys = ("topic", "payload", "settings")
        if any(all(battery.get(key) == each.get(key) for key in keys) for each in readings):
            self.report.add(
                (*path, "energy", "battery", "topic"),
                f"is {shown(battery['topic'])}, from which the same value is read as from the "
                'readings; set `value`, such as value = "battery"',
                code=Code.TWICE,
            )
        if battery["topic"] not in [each.get("topic") for each in readings]:
            self._topic_names(field.get("sensors", ()), field, path)

    def _between(self, fields: Mapping[str, Values]) -> None:
        """Check that no two topics of the fields, for readings or for commands, are in conflict."""
        readings: dict[Any, str] = {}
        command_topics: dict[str, str] = {}
        topics = {
            source.get("topic"): name
            for name, field in fields.items()
            for _, source in _sources_of(field)
        }
        for name, field in fields.items():
            path = ("fields", name)
            for key, source in _sources_of(field):
                topic = source.get("topic")
                same = (topic, source.get("settings", {}).get("value"))
                if topic and (first := readings.setdefault(same, name)) != name:
                    self.report.add(
                        (*path, *key, "topic"),
                        f"is {shown(topic)}, which is also the topic of "
                        f"{dotted(('fields', first))}; fields with the same topic need different "
                        "settings `value`",
                        code=Code.TWICE,
                    )
            if field.get("activate", {}).get("mode") == "sleepy":
                self._check_command_topics(name, field, command_topics)
            for key, command in _commands_of(field):
                if command.get("topic") and command["topic"] in topics:
                    other = dotted(("fields", topics[command["topic"]]))
                    self.report.add(
                        (*path, *key, "topic"),
                        f"is {shown(command['topic'])}, which is the reading topic of {other}; "
                        "allowed: any other topic",
                        code=Code.TWICE,
                    )

    def _check_command_topics(
        self, name: str, field: Values, command_topics: dict[str, str]
    ) -> None:
        """Check that no earlier field retains commands on a command topic of the field `name`.

        If two fields retained commands on the same topic, each field would clear the commands of
        the other.
        """
        names = field.get("names", {})
        for (key, command), (_, source) in zip(
            _commands_of(field), _sources_of(field), strict=True
        ):
            topic = command.get("topic") or ""
            for sensor in source.get("sensors", ()):
                own_topic = topic.replace("{sensor}", names.get(sensor, sensor))
                if topic and (first := command_topics.setdefault(own_topic, name)) != name:
                    self.report.add(
                        ("fields", name, *key, "topic"),
                        f"is {shown(topic)}, on which {dotted(('fields', first))} also sends "
                        f"commands to {sensor}; allowed: a topic that no other field uses",
                        code=Code.TWICE,
                    )
                    return


def _sources_of(field: Values) -> list[tuple[KeyPath, Values]]:
    """Return the settings of each source of a field's readings, with the key in the field."""
    if sources := field.get("readings"):
        return [(("readings", index), each) for index, each in enumerate(sources)]
    reading = field.get("reading") or {}
    return [(("reading",), {**reading, "sensors": field.get("sensors", ())})]


def _senders(field: Values) -> list[tuple[str, ...]]:
    """Return groups of sensors that only their names in topics tell apart.

    Sources with the same topic but different options read several values of one device. Sensors
    that sleep each need a topic of their own for the retained command.
    """
    groups: dict[Any, tuple[str, ...]] = {}
    for (_, command), (_, source) in zip(_commands_of(field), _sources_of(field), strict=True):
        keys = [(source.get("topic"), *sorted(source.get("settings", {}).items()))]
        if field.get("activate", {}).get("mode") == "sleepy":
            keys.append((command.get("topic"), "command"))
        for key in keys:
            groups[key] = groups.get(key, ()) + tuple(source.get("sensors", ()))
    return list(dict.fromkeys(groups.values()))


def _commands_of(field: Values) -> list[tuple[KeyPath, Values]]:
    """Return the settings of the command to each source's sensors, with the key in the field."""
    if sources := field.get("readings"):
        each_key = ((("readings", index, "activate"), each) for index, each in enumerate(sources))
        return [(key, each.get("activate", {})) for key, each in each_key]
    return [(("activate",), field.get("activate", {}))]
