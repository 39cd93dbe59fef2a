-- Babu's thesis, sections 1.3 and 6.1.1: traffic of a customer that went through three links.
-- What it prints is in thesis_1_network_traffic.txt; README.md says how to run it.
-- The last row of each file has a time alone: it says how far time went.

CREATE STREAM C (pid int, size int, ts timestamp) TIMESTAMP BY ts
  FROM files(path => 'examples/papers/thesis_1_network_traffic/C.csv');
CREATE STREAM B (pid int, ts timestamp) TIMESTAMP BY ts
  FROM files(path => 'examples/papers/thesis_1_network_traffic/B.csv');
CREATE STREAM O (pid int, ts timestamp) TIMESTAMP BY ts
  FROM files(path => 'examples/papers/thesis_1_network_traffic/O.csv');

CREATE QUERY traffic AS
  SELECT sum(C.size) AS total
    FROM C [RANGE 10 MINUTES], B [RANGE 10 MINUTES], O [RANGE 10 MINUTES]
    WHERE C.pid = B.pid AND B.pid = O.pid;

CREATE QUERY packets AS
  SELECT C.pid, C.size
    FROM C [RANGE 10 MINUTES], B [RANGE 10 MINUTES], O [RANGE 10 MINUTES]
    WHERE C.pid = B.pid AND B.pid = O.pid;

CREATE SINK shown TO console();
