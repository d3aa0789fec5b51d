"""Time zones: looked up by name in the machine's database, or the zone of this machine."""

from datetime import UTC, datetime, tzinfo

from edge_tvbo.errors import ConfigError, hint


class LocalZone(tzinfo):
    """The time zone of this machine, with its summer time, for `datetime.fromtimestamp`."""

    def fromutc(self, time: datetime) -> datetime:
        """Return the local time at `time`, which is in UTC."""
        at = time.replace(tzinfo=UTC).timestamp()
        return datetime.fromtimestamp(at).replace(tzinfo=self)


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
