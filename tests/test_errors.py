"""Every error has a code, and every code a paragraph in docs/errors.md."""

import re
import sys
from shlex import split

import pytest
from support.paths import ROOT

from edge_tvbo import errors
from edge_tvbo.errors import Code, EdgeTvboError

PAGE = (ROOT / "docs" / "errors.md").read_text("utf-8")
PARAGRAPHS = dict(re.findall(r"^## (E\d{3}): [^\n]+\n(.*?)(?=^## |\Z)", PAGE, re.M | re.S))
SOURCES = [
    path.read_text("utf-8")
    for folder in ("edge_tvbo", "adapters")
    for path in (ROOT / folder).rglob("*.py")
]
KINDS = [
    each
    for each in vars(errors).values()
    if isinstance(each, type) and issubclass(each, EdgeTvboError)
]


def test_codes_and_paragraphs_are_the_same_and_in_order():
    assert list(PARAGRAPHS) == [str(code) for code in Code]
    assert list(PARAGRAPHS) == sorted(set(PARAGRAPHS))


@pytest.mark.parametrize("code", Code, ids=str)
def test_a_paragraph_shows_the_message_and_says_what_to_do(code):
    _, example, advice = PARAGRAPHS[code].split("```")

    assert f"[{code}]" in example
    assert len(advice.split()) > 10


@pytest.mark.parametrize("code", Code, ids=str)
def test_a_code_is_used(code):
    use = re.compile(rf"\bCode\.{code.name}\b")
    assert any(map(use.search, SOURCES))


def test_every_error_that_a_person_meets_has_a_code_of_its_kind():
    shown = [each.code for each in KINDS if each is not errors.PayloadError]
    assert len(set(shown)) == len(shown)
    assert errors.LinkError("away", Code.NAME).code is Code.NAME


def test_the_docstring_shows_each_error_under_its_base_class():
    shown, above = {}, ["EdgeTvboError"]
    for branch, name in re.findall(r"^((?:│   )*)[├└]── (\w+)", errors.__doc__, re.M):
        depth = 1 + len(branch) // 4
        above[depth:] = [name]
        shown[name] = above[depth - 1]

    assert shown == {each.__name__: each.__base__.__name__ for each in KINDS[1:]}


def test_the_docstring_names_the_errors_of_other_modules():
    names = {each.__name__ for each in KINDS}
    classes = [each for text in SOURCES for each in re.findall(r"^class (\w+)\((\w+)", text, re.M)]
    elsewhere = {name for name, base in classes if base in names} - names

    assert elsewhere == set(re.findall(r"`(\w+)` in", errors.__doc__))


def test_the_debian_package_names_no_command_of_pip(monkeypatch):
    monkeypatch.setattr(errors, "__file__", f"{errors.DEBIAN_PACKAGE}edge_tvbo/errors.py")

    text = str(errors.MissingExtra("scipy", "science"))

    assert "Debian package" in text
    assert "'science'" in text
    assert "pip" not in text


def environment(directory, *files):
    """Make a directory with some files as pipx, venv or uv do; return its name."""
    for each in files:
        (directory / each).parent.mkdir(parents=True, exist_ok=True)
        (directory / each).touch()
    return str(directory)


@pytest.mark.parametrize(
    ("file", "command"),
    [
        ("pipx_metadata.json", ["pipx", "runpip", "my tools", "install"]),
        ("bin/pip", ["{}/bin/pip", "install"]),
        ("bin/python", ["uv", "pip", "install", "--python", "{}"]),
    ],
)
def test_a_shell_reads_the_command_if_the_path_of_the_environment_has_a_space(
    tmp_path, monkeypatch, file, command
):
    prefix = environment(tmp_path / "my tools", file)
    monkeypatch.setattr(sys, "prefix", prefix)

    assert split(errors.install_command()) == [each.format(prefix) for each in command]
