-- Babu and Widom, Q1 to Q3: heavy minutes, the share of a customer's packets, the heaviest pairs.
-- What it prints is in babu_widom_packets.txt; README.md says how to run it.
-- The last row of each file has a time alone: it says how far time went.

CREATE STREAM PTc (saddr int, daddr int, id int, length int, ts timestamp) TIMESTAMP BY ts
  FROM files(path => 'examples/papers/babu_widom_packets/PTc.csv');
CREATE STREAM PTb (saddr int, daddr int, id int, length int, ts timestamp) TIMESTAMP BY ts
  FROM files(path => 'examples/papers/babu_widom_packets/PTb.csv');

CREATE QUERY q1 AS
  SELECT sum(length) AS load FROM PTb [RANGE 1 MINUTE SLIDE 1 MINUTE] HAVING sum(length) > 100;

CREATE QUERY q1_told AS
  SELECT ISTREAM(sum(length) AS load) FROM PTb [RANGE 1 MINUTE SLIDE 1 MINUTE]
    HAVING sum(length) > 100;

CREATE QUERY q2 AS
  SELECT CAST((SELECT count(*) FROM PTc [RANGE 5 MINUTES] AS C, PTb [RANGE 5 MINUTES] AS B
      WHERE C.saddr = B.saddr AND C.daddr = B.daddr AND C.id = B.id) AS DOUBLE) / total AS share
    FROM (SELECT count(*) AS total FROM PTb [RANGE 5 MINUTES]) AS n;

CREATE QUERY q3 WITH (unbounded = allowed) AS
  WITH Load AS (SELECT saddr, daddr, sum(length) AS traffic FROM PTb GROUP BY saddr, daddr)
    SELECT saddr, daddr, traffic FROM Load AS L1
    WHERE (SELECT count(*) FROM Load AS L2 WHERE L2.traffic < L1.traffic)
      > (SELECT 0.5 * count(*) FROM Load);

CREATE QUERY load AS
  SELECT saddr, daddr, sum(length) AS traffic FROM PTb GROUP BY saddr, daddr;

CREATE SINK shown TO console();
