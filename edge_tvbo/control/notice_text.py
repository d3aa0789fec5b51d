"""Notice text: the texts with which a controller informs users about events."""

from collections.abc import Mapping

from edge_tvbo.control.facts import Deviation, Silence
from edge_tvbo.control.quantities import Quantities
from edge_tvbo.messages.documents import NoticeKind
from edge_tvbo.messages.formatting import duration, significant

NOTICES: dict[NoticeKind, str] = {
    "all-suspect": "No sensor replies; check the sensors and the broker. Until a sensor replies,"
    " the sensors are activated in turn",
    "battery-low": "{sensor} has {percent} % battery left; this sensor is not activated",
    "model-reset": "The model was reset by command",
    "paused": "Paused by command; no sensor is activated until the field is resumed",
    "resumed": "Resumed by command; the next interval activates a sensor again",
    "sensor-back": "{sensor} responds again",
    "sensor-lost": "{sensor} did not reply in time; it is backed off and activated again later",
    "sensor-agrees": "{sensor} agrees with the estimate again, and its readings are used",
    "sensor-faulty": "{sensor} seems to be faulty",
    "sensor-ignored": "{sensor} is ignored by command: it is not activated, and its readings are"
    " not used",
    "sensor-used": "{sensor} is used again, by command",
    "some-back": "A sensor is available again; sensors are no longer activated in turn, but"
    " selected by the policy",
}
ADVICE_NOTICES: dict[NoticeKind, str] = {  # in `advise` mode, in which no command is sent
    **NOTICES,
    "all-suspect": "No sensor reports; check the sensors and the broker. Until a sensor reports,"
    " the sensors are recommended in turn",
    "battery-low": "{sensor} has {percent} % battery left; this sensor is not recommended",
    "paused": "Paused by command; no sensor is recommended until the field is resumed",
    "resumed": "Resumed by command; the next interval recommends a sensor again",
    "sensor-back": "{sensor} reports again",
    "sensor-ignored": "{sensor} is ignored by command: it is not recommended, and its readings are"
    " not used",
    "some-back": "A sensor is available again; sensors are no longer recommended in turn, but"
    " selected by the policy",
}


def notice_text(
    kind: NoticeKind,
    sensor: str | None = None,
    percent: float = 0.0,
    texts: Mapping[NoticeKind, str] = NOTICES,
) -> str:
    """Return the text of a notice about a field, or about one of its sensors."""
    return texts[kind].format(sensor=sensor, percent=significant(percent))


def silence_text(sensor: str, silence: Silence) -> str:
    """Return the text of a notice that `sensor` is silent.

    >>> silence_text("attic", Silence(240.0, 60.0, while_recommended=False))
    'attic has sent no usable reading for 4 min; it usually sends one every 60 s'
    """
    time, usual = duration(silence.time), duration(silence.usual)
    if silence.of_others:
        since = (
            f"for {time}"
            if silence.has_reported
            else f"since the daemon began to listen, {time} ago"
        )
        known = f"within {usual} if they are recommended"
        if not silence.while_recommended:
            known = f"every {usual}"
        return (
            f"{sensor} has sent no usable reading {since}; the other sensors usually send one"
            f" {known}. Check the sensor and its id"
        )
    if silence.while_recommended:
        return (
            f"{sensor} has sent no usable reading in the {time} for which it was recommended; it "
            f"usually sends one within {usual}"
        )
    return f"{sensor} has sent no usable reading for {time}; it usually sends one every {usual}"


def reset_text(sensor: str, deviation: Deviation, quantities: Quantities) -> str:
    """Return the text of a notice that the model was reset after a reading of `sensor`.

    The text depends on the event trigger of the policy. A trigger with a limit also resets the
    model after a reading within the limit, if the model has reached its largest number of replies.
    """
    value, estimate, distance = (
        quantities.text(each) for each in (deviation.value, deviation.estimate, deviation.distance)
    )
    stds = significant(deviation.stds, 2)
    compared = f"{distance} ({stds} standard deviations) from the estimate of {estimate}"
    if deviation.limit is None:
        return f"The model was reset after a reading of {sensor}: {value}, {compared}"
    limit = quantities.text(deviation.limit)
    if deviation.distance > deviation.limit:
        return (
            f"{sensor} contradicts the model: it reported {value}, which is {compared}; the limit"
            f" is {limit}. The model was reset"
        )
    return (
        "The model was reset, because it had reached its largest number of replies (n_upper)."
        f" {sensor} reported {value}, which is {compared}; the limit is {limit}"
    )
