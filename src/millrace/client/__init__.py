"""A client of a server: the API of a session, over HTTP, blocking or for asyncio."""
