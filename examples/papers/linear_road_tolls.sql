-- Linear Road, the queries of TollStr: toll of a vehicle that enters a congested segment.
-- What it prints is in linear_road_tolls.txt; README.md says how to run it.
-- The last row of each file has a time alone: it says how far time went.

CREATE STREAM PosSpeedStr (vehicleId int, speed double, xPos int, dir int, hwy int, ts timestamp)
  TIMESTAMP BY ts FROM files(path => 'examples/papers/linear_road_tolls/PosSpeedStr.csv');

CREATE QUERY active AS
  SELECT DISTINCT L.vehicleId, L.xPos / 1760 AS segNo
    FROM PosSpeedStr [RANGE 30 SECONDS] AS A, PosSpeedStr [PARTITION BY vehicleId ROWS 1] AS L
    WHERE A.vehicleId = L.vehicleId;

CREATE QUERY entries AS
  ISTREAM(SELECT DISTINCT L.vehicleId, L.xPos / 1760 AS segNo
    FROM PosSpeedStr [RANGE 30 SECONDS] AS A, PosSpeedStr [PARTITION BY vehicleId ROWS 1] AS L
    WHERE A.vehicleId = L.vehicleId);

CREATE QUERY congested AS
  SELECT xPos / 1760 AS segNo, dir, hwy FROM PosSpeedStr [RANGE 5 MINUTES]
    GROUP BY segNo, dir, hwy HAVING avg(speed) < 40;

CREATE QUERY volume AS
  WITH active AS (SELECT DISTINCT L.vehicleId, L.xPos / 1760 AS segNo, L.dir, L.hwy
      FROM PosSpeedStr [RANGE 30 SECONDS] AS A, PosSpeedStr [PARTITION BY vehicleId ROWS 1] AS L
      WHERE A.vehicleId = L.vehicleId)
    SELECT segNo, dir, hwy, count(vehicleId) AS numVehicles FROM active
    GROUP BY segNo, dir, hwy;

CREATE QUERY toll AS
  WITH active AS (SELECT DISTINCT L.vehicleId, L.xPos / 1760 AS segNo, L.dir, L.hwy
      FROM PosSpeedStr [RANGE 30 SECONDS] AS A, PosSpeedStr [PARTITION BY vehicleId ROWS 1] AS L
      WHERE A.vehicleId = L.vehicleId),
    congested AS (SELECT xPos / 1760 AS segNo, dir, hwy FROM PosSpeedStr [RANGE 5 MINUTES]
      GROUP BY segNo, dir, hwy HAVING avg(speed) < 40),
    volume AS (SELECT segNo, dir, hwy, count(vehicleId) AS numVehicles FROM active
      GROUP BY segNo, dir, hwy)
    SELECT RSTREAM(E.vehicleId, 2 * (V.numVehicles - 1) * (V.numVehicles - 1) AS toll)
    FROM ISTREAM(SELECT vehicleId, segNo, dir, hwy FROM active) [NOW] AS E,
      congested AS C, volume AS V
    WHERE E.segNo = C.segNo AND C.segNo = V.segNo AND E.dir = C.dir AND C.dir = V.dir
      AND E.hwy = C.hwy AND C.hwy = V.hwy;

CREATE SINK shown TO console();
