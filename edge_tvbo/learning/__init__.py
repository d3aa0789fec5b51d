"""What training days teach."""
