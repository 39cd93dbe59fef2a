"""Reading what a root holds: answers, histories and tables, from any process."""
