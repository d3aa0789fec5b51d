"""Pages: the fenced blocks of a Markdown page, and what its commands print."""

import re

FENCED = re.compile(r"^```(.*)\n((?s:.*?))^```$", re.MULTILINE)


def prose(text):
    """Return a page without its blocks."""
    return FENCED.sub("", text)


def blocks(text, language):
    """Return the blocks of a language; not those that are files."""
    return [body for info, body in FENCED.findall(text) if info == language]


def files(text, language=None):
    """Return (path, content) of the blocks whose language is followed by a path."""
    named = [(*info.split(), body) for info, body in FENCED.findall(text) if " " in info]
    return [(path, body) for kind, path, body in named if language in (None, kind)]


def sections(text, level):
    """Return the sections below the headings of a level, by heading; without those before."""
    marks = "#" * level
    parts = re.split(rf"^(#{{1,{level}}} .*)$", text, flags=re.MULTILINE)
    pairs = zip(parts[1::2], parts[2::2], strict=True)
    return {
        head.removeprefix(f"{marks} "): body for head, body in pairs if head.startswith(f"{marks} ")
    }


def unprinted(text, printed):
    """Return the lines of a page's `text` blocks that are not printed, numbers aside."""
    shapes = {shape(line) for line in printed.splitlines()}
    quoted = [line for block in blocks(text, "text") for line in block.splitlines()]
    return [line for line in quoted if shape(line) not in shapes]


def shape(line):
    """Return a line without its numbers."""
    return re.sub(r"\d[\d.]*", "0", " ".join(line.split()))
