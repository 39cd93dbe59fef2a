"""What everything means, in slow plain Python."""
