"""Setup: sensor discovery, configuration template, and bug report."""
