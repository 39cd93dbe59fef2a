"""Reading a root from any process: what is committed, by the manifest, and no session."""
