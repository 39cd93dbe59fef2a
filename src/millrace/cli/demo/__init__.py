"""The demonstration: a stream, a live view, a driver that is killed, and its recovery."""
