"""Word check: refuses the words that docs/contributing.md rules out, in code and in pages.

    python tests/support/check_words.py

Prints one line for each finding, and exits with 1 where there is one. `make lint` runs it.
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
EXEMPT = (
    "CHANGELOG.md",
    "tests/support/check_words.py",
    "docs/contributing.md",
    "docs/findings.md",
)

TEXT = {  # in docstrings, comments, strings and pages
    r"\b(who|whom)ever\b": "name the user, the caller, the sensor, ...",
    r"\b(some|no)body(?! of)\b": "name the user, the caller, the sensor, ...",
    r"\bbegins? anew\b|\bbegan anew\b|\bbegun anew\b": "resets, starts again",
    r"\b(let|lets|letting) go of\b": "release, close, free",
    r"\b(be|is|are|was) believed\b": "estimated",
    r"\bis told (of|that|what|how|when)\b|\bare told\b": "receives, is given",
    r"\bmend(s|ed|ing)?\b": "fix",
    r"\bwhat would do\b": "allowed values",
    r"\bone's own\b": "your own, its own",
    r"\bout of all proportion\b": "outside the plausible range",
    r"\bleft alone\b": "backed off",
    r"\b(that|which) (is|are) none\b": "an adjective: invalid",
    r"\bgood-bye\b": "disconnect, stop",
}
DOCSTRING = re.compile(r"(Give|Gives|Say|Says|Tell|Tells|Hear|Ask|Take in|Let go|Have) ")
CONSTANT = re.compile(r"_?(MOST|LEAST|LARGEST|LONGEST|SHORTEST|PATIENCE)(_[A-Z_]+)?$")


def findings(path: Path) -> Iterator[tuple[int, str]]:
    """Yield (line, text) for each finding in a file."""
    text = path.read_text("utf-8")
    if path.suffix != ".py":
        yield from _in_text(text, 1)
        return
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in (tokenize.COMMENT, tokenize.STRING):
            yield from _in_text(token.string, token.start[0])
        elif token.type == tokenize.NAME and CONSTANT.match(token.string):
            yield (
                token.start[0],
                f"{token.string}: say what is bounded, with the unit: MAX_..., ..._S",
            )
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Module):
            first = (ast.get_docstring(node) or "").split("\n")[0]
            if DOCSTRING.match(first):
                yield (
                    getattr(node, "lineno", 1),
                    f'"{first[:50]}": Return ..., Compute ..., Publish ...',
                )


def _in_text(text: str, line: int) -> Iterator[tuple[int, str]]:
    for pattern, instead in TEXT.items():
        for found in re.finditer(pattern, text, re.IGNORECASE):
            yield line + text.count("\n", 0, found.start()), f'"{found[0]}": {instead}'


def main() -> int:
    """Check every tracked file; return the exit status."""
    names = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "*.py", "*.md", "*.html", "*.js"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    count = 0
    for name in sorted(names):
        if name in EXEMPT or not (ROOT / name).exists():
            continue
        for line, text in sorted(set(findings(ROOT / name))):
            print(f"{name}:{line}: {text}")
            count += 1
    return int(count > 0)


if __name__ == "__main__":
    sys.exit(main())
