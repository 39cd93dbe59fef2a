-- Babu's thesis, example 2.1.1, in full and by the defaults: a filter is a stream of what passes it.
-- What it prints is in thesis_2_filter.txt; README.md says how to run it.
-- The last row of each file has a time alone: it says how far time went.

CREATE STREAM S (A int, B int, C int, ts timestamp) TIMESTAMP BY ts
  FROM files(path => 'examples/papers/thesis_2_filter/S.csv');

CREATE QUERY in_full AS
  SELECT ISTREAM(A, B, C) FROM S [ROWS UNBOUNDED] WHERE S.A > 10 AND S.B < 20 AND S.C > 40;

CREATE QUERY by_default AS
  SELECT A, B, C FROM S [RANGE UNBOUNDED] WHERE S.A > 10 AND S.B < 20 AND S.C > 40;

CREATE QUERY now AS
  SELECT RSTREAM(A, B, C) FROM S [NOW] WHERE S.A > 10 AND S.B < 20 AND S.C > 40;

CREATE SINK shown TO console();
