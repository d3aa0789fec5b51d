"""Payload format `number`: one number as text, ``21.3``."""

from collections.abc import Mapping

from edge_tvbo.messages.payloads import PayloadCodec
from edge_tvbo_adapters.payloads.decode import check_settings, decode_text, parse_number


def codec(settings: Mapping[str, str]) -> PayloadCodec:
    """Return the codec of plain numbers; the format has no settings.

    >>> codec({})(b"21.3")
    (21.3, None)
    """
    check_settings(settings, (), "number")
    return lambda payload: (parse_number(decode_text(payload)), None)
