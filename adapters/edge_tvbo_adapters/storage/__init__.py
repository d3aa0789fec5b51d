"""Storage: state files and the decision history."""
