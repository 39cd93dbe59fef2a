-- Babu's thesis, figure 6.19: segments of Linear Road with a car that stands still.
-- What it prints is in thesis_6_accident_segments.txt; README.md says how to run it.
-- The last row of each file has a time alone: it says how far time went.

CREATE STREAM CarStr (cid int, xpos int, sid int, ts timestamp) TIMESTAMP BY ts
  FROM files(path => 'examples/papers/thesis_6_accident_segments/CarStr.csv');

CREATE QUERY acc_seg AS
  SELECT DISTINCT sid FROM
    (SELECT LastRep.cid, sid FROM
      (CarStr [PARTITION BY cid ROWS 1]) AS LastRep,
      (SELECT DISTINCT cid FROM CarStr [RANGE 30 SECONDS]) AS CurActiveCars
     WHERE LastRep.cid = CurActiveCars.cid) AS CurCarSeg,
    (SELECT cid FROM CarStr [PARTITION BY cid ROWS 4] GROUP BY cid
     HAVING count(DISTINCT xpos) = 1 AND count(*) = 4) AS AccCars
    WHERE CurCarSeg.cid = AccCars.cid;

CREATE QUERY active AS
  SELECT DISTINCT cid FROM CarStr [RANGE 30 SECONDS];

CREATE QUERY stopped AS
  SELECT cid FROM CarStr [PARTITION BY cid ROWS 4] GROUP BY cid
    HAVING count(DISTINCT xpos) = 1 AND count(*) = 4;

CREATE SINK shown TO console();
