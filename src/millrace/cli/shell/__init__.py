"""The shell `millrace sql`: reads statements, asks a server, and prints what it says."""
