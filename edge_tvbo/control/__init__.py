"""Control: the controller of a field as a state machine, without I/O and without a clock."""
