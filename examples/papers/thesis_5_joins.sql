-- Babu's thesis, chapter 5: three-way joins, a chain and a common attribute, and section 6.3.4.
-- What it prints is in thesis_5_joins.txt; README.md says how to run it.
-- The last row of each file has a time alone: it says how far time went.

CREATE STREAM R (A int, ts timestamp) TIMESTAMP BY ts
  FROM files(path => 'examples/papers/thesis_5_joins/R.csv');
CREATE STREAM S (A int, B int, ts timestamp) TIMESTAMP BY ts
  FROM files(path => 'examples/papers/thesis_5_joins/S.csv');
CREATE STREAM T (B int, ts timestamp) TIMESTAMP BY ts
  FROM files(path => 'examples/papers/thesis_5_joins/T.csv');

CREATE QUERY chain AS
  SELECT R.A, S.B FROM R [ROWS 2], S [ROWS 2], T [ROWS 2] WHERE R.A = S.A AND S.B = T.B;

CREATE QUERY common AS
  SELECT r.A FROM R [ROWS 2] r, S [ROWS 2] s, T [ROWS 2] t WHERE r.A = s.A AND s.A = t.B;

CREATE QUERY example_5_1 WITH (unbounded = allowed) AS
  SELECT ISTREAM(R.A, S.B, T.B AS TB) FROM R, S, T WHERE R.A = S.A AND S.B = T.B;

CREATE QUERY two_ranges AS
  SELECT R.A FROM R [RANGE 5 MINUTES], S [RANGE 10 MINUTES] WHERE R.A = S.A;

CREATE QUERY one_row_window WITH (unbounded = allowed) AS
  SELECT R.A, S.B FROM R [ROWS UNBOUNDED], S [ROWS UNBOUNDED], T [ROWS 1]
    WHERE R.A = S.A AND S.B = T.B AND T.B > 1;

CREATE SINK shown TO console();
