"""A million standing SQL queries on one Spark stream."""
