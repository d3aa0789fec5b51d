"""A payload that is one number, as text: ``21.3``."""

from collections.abc import Mapping

from edge_tvbo.messages.payloads import PayloadCodec
from edge_tvbo_adapters.payloads.decode import decoded_text, known_settings, number_in


def codec(settings: Mapping[str, str]) -> PayloadCodec:
    """Give the codec; it has no settings.

    >>> codec({})(b"21.3")
    (21.3, None)
    """
    known_settings(settings, (), "number")
    return lambda payload: (number_in(decoded_text(payload)), None)
