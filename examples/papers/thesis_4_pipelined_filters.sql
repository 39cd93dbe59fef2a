-- Babu's thesis, section 4.7: memberships in windows, by definition and as the experiments run it.
-- What it prints is in thesis_4_pipelined_filters.txt; README.md says how to run it.
-- The last row of each file has a time alone: it says how far time went.

CREATE STREAM S0 (A int, ts timestamp) TIMESTAMP BY ts
  FROM files(path => 'examples/papers/thesis_4_pipelined_filters/S0.csv');
CREATE STREAM S1 (A int, ts timestamp) TIMESTAMP BY ts
  FROM files(path => 'examples/papers/thesis_4_pipelined_filters/S1.csv');
CREATE STREAM S2 (A int, ts timestamp) TIMESTAMP BY ts
  FROM files(path => 'examples/papers/thesis_4_pipelined_filters/S2.csv');

CREATE QUERY by_definition WITH (unbounded = allowed) AS
  SELECT A FROM S0 WHERE A IN (SELECT A FROM S1 [ROWS 2]) AND A IN (SELECT A FROM S2 [ROWS 2]);

CREATE QUERY on_arrival AS
  SELECT RSTREAM(A) FROM S0 [NOW]
    WHERE A IN (SELECT A FROM S1 [ROWS 10,000]) AND A IN (SELECT A FROM S2 [ROWS 10,000]);

CREATE QUERY signature AS
  SELECT A FROM S0 [RANGE UNBOUNDED] WHERE A % 2 = 0 AND CAST(A AS TEXT) LIKE '%4%';

CREATE SINK shown TO console();
