"""Dashboard plan: the image of a building, shown behind the map of the sensors."""

from pathlib import Path

import msgspec

from edge_tvbo.errors import ConfigError

MAX_SIZE = 2**24  # bytes of the file
FORMATS = {  # the first bytes of each type of file; SVG is left out, because it can contain scripts
    "image/png": b"\x89PNG\r\n\x1a\n",
    "image/jpeg": b"\xff\xd8\xff",
    "image/gif": b"GIF8",
}


class PlanImage(msgspec.Struct, frozen=True):
    """The image behind the map of the sensors; its lower left corner is at (0, 0)."""

    content: bytes
    media_type: str
    width: float  # width of the area that the image shows, in m


def read_plan(path: Path, width: float) -> PlanImage:
    """Read the image file `path`, which shows an area that is `width` metres wide.

    Raises `ConfigError` if the file cannot be read, is too large, or is not an image.
    """
    try:
        with path.open("rb") as file:
            content = file.read(MAX_SIZE + 1)
    except OSError as error:
        raise ConfigError(
            f"{path}: {error.strerror}; --plan must name an image in PNG, JPEG or GIF format."
        ) from error
    if len(content) > MAX_SIZE:
        raise ConfigError(
            f"{path} is larger than {MAX_SIZE >> 20} MiB; scale the image down to 2000 pixels."
        )
    for media_type, begin in FORMATS.items():
        if content.startswith(begin):
            return PlanImage(content, media_type, width)
    raise ConfigError(f"{path} is not an image in PNG, JPEG or GIF format; convert it to PNG.")
