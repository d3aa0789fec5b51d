"""The docstrings of the public API: numpydoc sections that match the signatures."""

import inspect
import re
import subprocess
import sys

import msgspec
import pytest

import edge_tvbo
from edge_tvbo.policy.base import Choice, ObserveResult, Policy

EXPORTED = {name: getattr(edge_tvbo, name) for name in edge_tvbo.__all__}
CLASSES = [each for each in EXPORTED.values() if inspect.isclass(each)]
FUNCTIONS = [each for each in EXPORTED.values() if not inspect.isclass(each)]
DOCUMENTED = [*CLASSES, Choice, ObserveResult, Policy]


def own_methods(kind):
    """Return the public methods that a class defines itself."""
    names = [name for name in vars(kind) if not name.startswith("_")]
    return [getattr(kind, name) for name in names if inspect.isfunction(vars(kind)[name])]


METHODS = [method for kind in [*CLASSES, Policy] for method in own_methods(kind)]


def section(documented, title):
    """Return the body of a numpydoc section; None if there is none."""
    text = inspect.getdoc(documented) or ""
    found = re.search(
        rf"^{title}\n-{{{len(title)}}}\n(.*?)(?=\n\n\w[\w ]*\n-+\n|\Z)", text, re.M | re.S
    )
    return found[1] if found else None


def names_in(body):
    """Return the names that a section describes, in order."""
    heads = re.findall(r"^(\S[^:\n]*?)(?: : .*)?$", body or "", re.M)
    return [name.strip("* ") for head in heads for name in head.split(",")]


def parameters_of(called):
    return [name for name in inspect.signature(called).parameters if name != "self"]


def identify(documented):
    return documented.__qualname__


@pytest.mark.parametrize("function", [*FUNCTIONS, *METHODS], ids=identify)
def test_the_parameters_section_matches_the_signature(function):
    described = names_in(section(function, "Parameters"))

    assert described == parameters_of(function)


@pytest.mark.parametrize("function", [*FUNCTIONS, *METHODS], ids=identify)
def test_a_function_that_returns_something_has_a_returns_section(function):
    returned = inspect.signature(function).return_annotation

    assert (section(function, "Returns") is not None) == (returned not in (None, "None"))


@pytest.mark.parametrize("kind", CLASSES, ids=identify)
def test_the_parameters_section_of_a_class_matches_its_constructor(kind):
    assert names_in(section(kind, "Parameters")) == parameters_of(kind)


@pytest.mark.parametrize("kind", [Choice, ObserveResult], ids=identify)
def test_the_attributes_section_of_a_result_matches_its_fields(kind):
    assert issubclass(kind, msgspec.Struct)
    assert names_in(section(kind, "Attributes")) == list(kind.__struct_fields__)


@pytest.mark.parametrize("documented", [*DOCUMENTED, *FUNCTIONS, *METHODS], ids=identify)
def test_the_first_line_is_a_sentence(documented):
    first = (inspect.getdoc(documented) or "").split("\n")[0]

    assert first.endswith(".")


def test_names_that_are_imported_at_the_first_use_are_listed():
    """A new process is needed: the tests above have imported the names already."""
    code = "import edge_tvbo; print(set(edge_tvbo.__all__) <= set(dir(edge_tvbo)))"
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout
    assert printed == "True\n"
