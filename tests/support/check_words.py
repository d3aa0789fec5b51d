"""Word check: refuses the words that docs/contributing.md rules out, in all text files.

    python tests/support/check_words.py [file or folder ...]

Prints one line for each finding, and exits with 1 if there is one. `make lint` runs it.
"""

import ast
import io
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SUFFIXES = (
    *(".py", ".md", ".html", ".js"),
    *("Makefile", ".sh", ".toml", ".service", ".yaml", ".yml"),
)
EXEMPT = (
    "CHANGELOG.md",
    "docs/contributing.md",
    "tests/data/",  # files of old versions
    "tests/support/check_words.py",
)

TEXT = {  # from the start of a word: in docstrings, comments, strings, names; else in all of a file
    r"(?:who|whom|whose)ever\b": "name the user, the caller, the sensor, ...",
    r"(?:some|no)body(?! of)\b": "name the user, the caller, the sensor, ...",
    r"who looks? on\b": "name the user, the observer, ...",
    r"beg[aiu]ns? anew\b": "resets, starts again",
    r"(?:let|lets|letting) go of\b": "release, close, free",
    r"(?:be|is|are|was|were) believed\b": "estimated",
    r"is told (?:of|that|what|how|when)\b|are told\b(?! apart)": "receives, is given",
    r"mend(?:s|ed|ing)?\b": "fix",
    r"what would do\b": "allowed values",
    r"one's own\b": "your own, its own",
    r"of ours\b": "our, its",
    r"in vain\b": "without success, failed",
    r"what (?:has )?bec[ao]me? of\b": "name the subject: the result, the end",
    r"out of all proportion\b": "outside the plausible range",
    r"left alone\b": "backed off",
    r"(?:that|which) (?:is|are) none\b": "an adjective: invalid",
    r"good-bye\b": "disconnect, stop",
    r"liars?\b": "implausible reading, faulty sensor",
    r"hindsight\b": "decision history",
    r"rehears(?:al|e|es|ed)\b": "replay into memory",
    r"(?<!\")training sd\b": "standard deviations of the training data",
}
_ANY = re.compile(r"\b(?:" + "|".join(TEXT) + ")", re.IGNORECASE)  # one search for most files
DOCSTRING = re.compile(
    r"(Ask|Be|Believe|Come|Give|Go|Have|Hear|Let go|Look|Mend|Say|See|Take in|Tell|Welcome)s? "
)
NO_NOUN = re.compile(r"(How|What|Whatever|Who|Whoever|Whose) ")
CONSTANT = re.compile(
    r"\b_?(?:(?:MOST|LEAST|FEWEST|LARGEST|SMALLEST|LONGEST|SHORTEST|GREATEST|HIGHEST|LOWEST"
    r"|PATIENCE|GENEROUS|ENOUGH|SOON|AGES)(?:_[A-Z_]+)?|SEVERAL|NEAR|FAR|MEMORY)\b"
)


def findings(path: Path) -> Iterator[tuple[int, str]]:
    """Yield (line, text) for each finding in a file."""
    text = path.read_text("utf-8")
    if path.suffix != ".py":
        yield from _in_text(text, 1)
        return
    if _ANY.search(text) or CONSTANT.search(text):  # few files: the tokens take longest
        yield from _in_tokens(text)
    yield from _in_definitions(ast.parse(text))


def is_checked(name: str) -> bool:
    """Return whether the words of the file with this path, from the root, are checked."""
    return name.endswith(SUFFIXES) and not name.startswith(EXEMPT)


def _in_tokens(text: str) -> Iterator[tuple[int, str]]:
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in (tokenize.COMMENT, tokenize.STRING):
            yield from _in_text(token.string, token.start[0])
        elif token.type == tokenize.NAME and CONSTANT.fullmatch(token.string):
            yield token.start[0], f"{token.string}: say what is bounded: MAX_..., ..._TIMEOUT_S"


def _in_definitions(node: ast.AST) -> Iterator[tuple[int, str]]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield from _in_text(node.name.replace("_", " "), node.lineno)
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Module):
        yield from _in_docstring(node)
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt | ast.excepthandler | ast.match_case):  # no expression
            yield from _in_definitions(child)


def _in_docstring(node: ast.AST) -> Iterator[tuple[int, str]]:
    first = (ast.get_docstring(node) or "").split("\n")[0]  # type: ignore[arg-type]
    line = getattr(node, "lineno", 1)
    if DOCSTRING.match(first):
        yield line, f'"{first[:50]}": Return ..., Compute ..., Publish ...'
    elif isinstance(node, ast.Module | ast.ClassDef) and NO_NOUN.match(first):
        yield line, f'"{first[:50]}": begin with a noun, the subject'


def _in_text(text: str, line: int) -> Iterator[tuple[int, str]]:
    if not _ANY.search(text):
        return
    for pattern, instead in TEXT.items():
        for found in re.finditer(rf"\b(?:{pattern})", text, re.IGNORECASE):
            yield line + text.count("\n", 0, found.start()), f'"{found[0]}": {instead}'


def main(paths: list[str]) -> int:
    """Check the project's files, or those in `paths`; return the exit status."""
    names = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "--", *(paths or ["."])],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    count = 0
    for name in sorted(names):
        if not is_checked(name) or not (ROOT / name).exists():
            continue
        for line, text in sorted(set(findings(ROOT / name))):
            print(f"{name}:{line}: {text}")
            count += 1
    return int(count > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
