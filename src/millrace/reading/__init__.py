"""Reading a root from any process: answers, the list of queries, what is committed."""
