"""Control: one interval as a state machine, without I/O and without a clock."""
