"""Message size: the health document and the response to `cmd/status` each fit in one message."""

from collections.abc import Iterator, Mapping
from itertools import islice

import msgspec
from msgspec.structs import replace

from edge_tvbo.errors import PayloadError
from edge_tvbo.messages.documents import FieldHealth, Health, StatusReply
from edge_tvbo.messages.formatting import MAX_NAMED_SENSORS

MAX_HEALTH_BYTES = 40_000  # many brokers accept 64 kB; a response also contains the decisions
MAX_REPLY_BYTES = 60_000  # the data in the response to `cmd/status`
LIMITS = (128, 64, 32, MAX_NAMED_SENSORS)  # maximum number of sensors of a field under one key
STAGES: tuple[tuple[int, int | None, int | None], ...] = (  # limits: texts, ids, ignored sensors
    *((limit, None, None) for limit in LIMITS),
    *((LIMITS[-1], limit, None) for limit in LIMITS),
    *((limit, limit, None) for limit in (3, 0)),
    *((0, 0, limit) for limit in (*LIMITS, 0)),
)


def bounded(health: Health) -> Health:
    """Return the health document, with fewer sensors if it has more than `MAX_HEALTH_BYTES`.

    The texts about faulty and implausible sensors are left out before the ids of unresponsive
    sensors, of sensors with refused activations and of sensors with a low battery. Ignored sensors
    are the last to be left out, because Home Assistant reads the state of its switches from them.
    If sensors are left out, the key `problem` says how many. With very many fields, the document
    can still exceed the limit, because of the counts and texts of the fields.
    """
    shortened = health
    for limits in STAGES:
        if len(msgspec.json.encode(shortened)) <= MAX_HEALTH_BYTES:
            break
        fields = {key: _limited(each, *limits) for key, each in health.fields.items()}
        shortened = replace(health, fields=fields)
        problem = "; ".join(filter(None, [health.problem, _left_out(health, shortened)]))
        shortened = replace(shortened, problem=problem or None)
    return shortened


def bounded_reply(reply: StatusReply) -> StatusReply:
    """Return the data of a response; if larger than `MAX_REPLY_BYTES`, with shortened decisions.

    Raises `PayloadError` if the data of all fields together is still too large.
    """
    if len(msgspec.json.encode(reply)) <= MAX_REPLY_BYTES:
        return reply
    decisions = {
        field: replace(each, factors=[], ineligible={}) for field, each in reply.selected.items()
    }
    shortened = replace(reply, selected=decisions)
    size = len(msgspec.json.encode(shortened))
    if size > MAX_REPLY_BYTES and len(reply.health.fields) > 1:
        raise PayloadError(
            "too-many-fields",
            f"The status of all fields has {size // 1000} kB, which is too large for one message; "
            'request one field: {"field": "<name>"}.',
        )
    return shortened


def _limited(field: FieldHealth, texts: int, names: int | None, ignored: int | None) -> FieldHealth:
    """Return a field's health, in which no key has more sensors than its limit.

    `texts` limits the faulty and the implausible sensors, which have texts. `ignored` limits the
    ignored sensors, and `names` limits the sensors under each other key. With None, there is no
    limit.
    """
    energy = field.energy
    return replace(
        field,
        faulty=_first(field.faulty, texts),
        implausible=_first(field.implausible, texts),
        suspects=field.suspects[:names],
        refused_activations=field.refused_activations[:names],
        ignored=field.ignored[:ignored],
        energy=energy and replace(energy, low_battery=energy.low_battery[:names]),
    )


def _first(texts: Mapping[str, str], number: int) -> dict[str, str]:
    return dict(islice(texts.items(), number))


def _left_out(health: Health, shortened: Health) -> str:
    """Return a text for the key `problem`: how many sensors the health document leaves out."""
    left = dict(_counts(shortened))
    numbers = [f"{number - left[key]} of `{key}`" for key, number in _counts(health)]
    several = ", ".join(each for each in numbers if not each.startswith("0 "))
    return several and f"the health document cannot list all sensors; it leaves out {several}"


def _counts(health: Health) -> Iterator[tuple[str, int]]:
    """Yield ``(key, number of sensors)`` for each key from which sensors can be left out."""
    fields = health.fields.values()
    for key in ("faulty", "implausible", "suspects", "refused_activations", "ignored"):
        yield key, sum(len(getattr(each, key)) for each in fields)
    yield "low_battery", sum(len(each.energy.low_battery) for each in fields if each.energy)
