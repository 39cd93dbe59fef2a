"""The server: an engine process, gateway processes, and the HTTP API that they serve."""
