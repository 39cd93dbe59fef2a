-- PSoup's windows: BEGIN and END are fixed (snapshot, landmark) or behind now (sliding).
-- What it prints is in psoup_windows.txt; README.md says how to run it.
-- The last row of each file has a time alone: it says how far time went.

CREATE STREAM R (a int, b int, ts timestamp) TIMESTAMP BY ts
  FROM files(path => 'examples/papers/psoup_windows/R.csv');
CREATE STREAM S (b int, c int, ts timestamp) TIMESTAMP BY ts
  FROM files(path => 'examples/papers/psoup_windows/S.csv');

CREATE QUERY landmark AS
  SELECT a FROM R WHERE a > 2 BEGIN 0 END NOW;

CREATE QUERY sliding AS
  SELECT a FROM R WHERE a > 2 BEGIN NOW - 10 s END NOW;

CREATE QUERY sliding_as_window AS
  SELECT a FROM R [RANGE 10 SECONDS] WHERE a > 2;

CREATE QUERY snapshot AS
  SELECT a FROM R BEGIN 0 END 5000000;

CREATE QUERY joined AS
  SELECT a, c FROM R, S WHERE R.b = S.b BEGIN NOW - 10 s END NOW;

CREATE QUERY inequality AS
  SELECT a, c FROM R, S WHERE R.a > S.c + 1 BEGIN NOW - 10 s END NOW;

CREATE QUERY older AS
  SELECT a FROM R BEGIN NOW - 10 s END NOW - 5 s;

CREATE SINK shown TO console();
