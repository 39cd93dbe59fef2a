"""What is asked: expressions and queries, and binding them to the columns of a stream."""
