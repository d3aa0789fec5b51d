"""Storage: state files, recorded readings and the decision history."""
