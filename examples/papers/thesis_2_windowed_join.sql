-- Babu's thesis, example 2.1.2 and the aggregate of section 2.2.5 that shares a store with it.
-- What it prints is in thesis_2_windowed_join.txt; README.md says how to run it.
-- The last row of each file has a time alone: it says how far time went.

CREATE STREAM S1 (A int, B int, ts timestamp) TIMESTAMP BY ts
  FROM files(path => 'examples/papers/thesis_2_windowed_join/S1.csv');
CREATE STREAM S2 (A int, C int, ts timestamp) TIMESTAMP BY ts
  FROM files(path => 'examples/papers/thesis_2_windowed_join/S2.csv');

CREATE QUERY joined AS
  SELECT S1.A, B, C FROM S1 [ROWS 1000], S2 [RANGE 2 MINUTES]
    WHERE S1.A = S2.A AND S1.A > 10 AND S1.B < 20;

CREATE QUERY new_values AS
  SELECT ISTREAM(S1.A) FROM S1 [ROWS 1000], S2 [RANGE 2 MINUTES]
    WHERE S1.A = S2.A AND S1.A > 10 AND S1.B < 20;

CREATE QUERY tops AS
  SELECT A, max(B) AS top FROM S1 [ROWS 200] GROUP BY A;

CREATE QUERY small AS
  SELECT S1.A, B, C FROM S1 [ROWS 1], S2 [RANGE 2 MINUTES]
    WHERE S1.A = S2.A AND S1.A > 10 AND S1.B < 20;

CREATE SINK shown TO console();
