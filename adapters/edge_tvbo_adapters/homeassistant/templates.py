"""Templates with which Home Assistant computes a state from a document of the daemon.

A document that was made with an earlier configuration may lack a field or a sensor that the
discovery message describes. The template then returns `None`, and the state is unknown.

The daemon clears a document of a field with an empty payload. In a template, `value` is then empty,
and `value_json` is undefined. A template that needs `value_json` would fail, and Home Assistant
would keep the state of the cleared document.
"""

import json
from collections.abc import Mapping

from edge_tvbo_adapters.homeassistant.described_field import DiscoveryField, labels_of

ATTRIBUTES = "{{ value or '{}' }}"  # all values of a document; none if it was cleared


def of_document(expression: str, otherwise: str = "None") -> str:
    """Return a template that evaluates `expression` for a document of a field.

    If the document was cleared, the template evaluates `otherwise`. A conditional expression must
    be in parentheses.
    """
    return f"{{{{ {expression} if value else {otherwise} }}}}"


def of_health(name: str, expression: str, otherwise: str = "None") -> str:
    """Return a template that evaluates `expression`, in which `field` is the health of a field.

    If the health document does not contain the field `name`, the template evaluates `otherwise`.
    """
    return (
        f"{{% set field = value_json.fields.get('{name}') %}}"
        f"{{{{ ({expression}) if field else ({otherwise}) }}}}"
    )


def of_posterior(key: str, sensor: str) -> str:
    """Return a template expression for the value of `sensor` in the list `key` of a posterior."""
    return f"dict(zip(value_json.sensors, value_json.{key})).get('{sensor}')"


def label_template(field: DiscoveryField) -> str:
    """Return a template expression for the label of the sensor with the id `value_json.sensor`."""
    labels = {sensor: label for sensor, label in labels_of(field).items() if label != sensor}
    if not labels:
        return "value_json.sensor"
    return f"{as_dict(labels)}.get(value_json.sensor, value_json.sensor)"


def as_dict(entries: Mapping[str, str]) -> str:
    return json.dumps(dict(entries), ensure_ascii=False)
