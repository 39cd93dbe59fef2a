"""Reading what a root holds, from any process: answers, histories, tables, lists of queries."""
