"""Time zones: looked up by name in the machine's database."""

from datetime import tzinfo

from edge_tvbo.errors import ConfigError, hint


def load_timezone(name: str) -> tzinfo:
    """Return the time zone called `name`, or raise `ConfigError` if it is unknown."""
    from zoneinfo import ZoneInfo, available_timezones  # a slow import that few files need

    try:
        return ZoneInfo(name)
    except (LookupError, ValueError, OSError):
        known = available_timezones()
    if not known:
        raise ConfigError(
            f"timezone is {name!r}, and this machine has no time-zone database; "
            "install one: apt install tzdata, or pip install tzdata"
        )
    raise ConfigError(
        f"timezone is {name!r}; it can be a name such as 'Europe/Berlin'.{hint(name, known)}"
    )
