"""Control: the controller of a field, a state machine without I/O and without a clock."""
