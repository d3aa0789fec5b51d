"""Garbage collection: none during a start, and as usual afterwards, also if the start fails."""

import gc

import pytest

from edge_tvbo.daemon.memory import collection_after_start, freeze_memory


def test_garbage_is_collected_from_the_end_of_the_start():
    with collection_after_start():
        assert not gc.isenabled()
        freeze_memory()
        assert gc.isenabled()
    assert gc.isenabled()


def test_garbage_is_collected_after_a_start_that_fails():
    with pytest.raises(ZeroDivisionError), collection_after_start():
        raise ZeroDivisionError
    assert gc.isenabled()
