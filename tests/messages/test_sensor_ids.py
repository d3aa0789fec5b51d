"""Sensor ids: valid, distinct, and the same for `init` and for CSV files."""

from pathlib import Path

from edge_tvbo_adapters.datasets.csv_columns import sensor_ids
from hypothesis import given
from hypothesis import strategies as st

from edge_tvbo.messages.sensor_ids import MAX_STEM_LENGTH, ids, is_id

names = st.text(min_size=1, max_size=70).filter(str.strip).map(str.strip)
names |= st.sampled_from(["Küche", "Kuche", "Kuche-2", "north hall", "north-hall", "кухня", "зал"])
distinct = st.lists(names, unique=True, max_size=9)


@given(distinct, st.sets(names.filter(is_id), max_size=3))
def test_every_name_gets_a_valid_id_of_its_own(sensors, taken):
    by_id = ids(sensors, taken)

    assert sorted(by_id.values()) == sorted(sensors)
    assert all(map(is_id, by_id)) and not taken & set(by_id)
    kept = [name for name in sensors if is_id(name) and name not in taken]
    assert all(by_id[name] == name for name in kept)


@given(distinct)
def test_columns_of_a_csv_file_get_the_ids_that_init_gives_them(sensors):
    assert {each: name for name, each in sensor_ids(Path("a.csv"), sensors).items()} == ids(sensors)


def test_id_of_a_long_name_has_room_for_a_number():
    first, second = ids(["ü" * 80, "ü" * 81])

    assert first == "u" * MAX_STEM_LENGTH and second == f"{first}-2"
