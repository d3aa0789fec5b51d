"""Commands of users: how a retained command is cleared."""

import shlex

from edge_tvbo_adapters.mqtt.message_router import MAX_DETAIL
from edge_tvbo_adapters.mqtt.request_queue import RequestQueue
from hypothesis import example, given
from hypothesis import strategies as st
from support.mqtt_bytes import message

LEVELS = st.text(st.characters(exclude_categories=["C"], exclude_characters="/+#"), max_size=20)


@given(LEVELS)
@example("pause")
@example("x; touch here")
def test_the_printed_command_clears_the_topic_of_a_retained_command(word):
    """Any client may choose the topic, and the user copies the command into a shell."""
    queue = RequestQueue("edge_tvbo/lab")
    topic = f"edge_tvbo/lab/cmd/{word}"
    assert len(topic) < MAX_DETAIL
    assert queue.put(message(topic, b"{}", retain=True), 0.0)

    ((_, rejected, _),) = queue.take()

    command = rejected.detail.partition("clear it:  ")[2]
    assert shlex.split(command) == ["mosquitto_pub", "-n", "-r", "-t", topic]
