"""Number reservation: how many numbers are reserved, and when they are used up."""

import pytest

from edge_tvbo.daemon.number_reservation import (
    RESERVE_MARGIN,
    RESERVED_NUMBERS,
    NumberReservation,
    intervals_in,
)


@pytest.mark.parametrize(("every", "wait"), [(600.0, 900.0), (60.0, 86_400.0), (3600.0, 60.0)])
def test_a_checkpoint_reserves_numbers_until_two_more_are_written(every, wait):
    reservation = NumberReservation()
    last = reservation.reserve("lab", 7, every, 0.0, wait)
    assert last - 7 >= 2 * wait / every
    end = 7 + intervals_in(wait, every)  # more intervals than begin before the next checkpoint
    assert not reservation.is_used_up("lab", end - 1)
    assert reservation.is_used_up("lab", end)


def test_a_field_without_a_reservation_makes_no_checkpoint_due():
    reservation = NumberReservation()
    assert not reservation.is_used_up("lab", 10**6)
    reservation.reserve("lab", 0, None, 0.0, 900.0)
    assert reservation.is_used_up("lab", 10**6)
    assert not reservation.is_used_up("attic", 10**6)
    reservation.cancel()
    assert not reservation.is_used_up("lab", 10**6)


def test_on_reading_a_checkpoint_is_due_before_the_reserved_numbers_run_out():
    reservation = NumberReservation()
    assert reservation.reserve("lab", 5, None, 0.0, 900.0) == 5 + 2 * RESERVED_NUMBERS
    end = 5 + RESERVED_NUMBERS - RESERVE_MARGIN
    assert [reservation.is_used_up("lab", number) for number in (end - 1, end)] == [False, True]


def test_on_reading_twice_as_many_numbers_are_usable_as_the_last_rate_needs():
    reservation = NumberReservation()
    reservation.reserve("lab", 0, None, 0.0, 900.0)
    last = reservation.reserve("lab", 9000, None, 450.0, 900.0)  # 20 intervals a second
    assert last == 9000 + 2 * (2 * 20 * 900)
    assert reservation.reserve("lab", 9001, None, 1350.0, 900.0) == 9001 + (last - 9000)  # slower
