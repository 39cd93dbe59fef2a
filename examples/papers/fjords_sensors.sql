-- Fjords, Query 1 and Query 2: mean speeds of known segments, and of those with an incident.
-- What it prints is in fjords_sensors.txt; README.md says how to run it.
-- The last row of each file has a time alone: it says how far time went.

CREATE STREAM sensorReadings (segment int, speed double, ts timestamp) TIMESTAMP BY ts
  FROM files(path => 'examples/papers/fjords_sensors/sensorReadings.csv');
CREATE STREAM incidents (segment int, description text, ts timestamp) TIMESTAMP BY ts
  FROM files(path => 'examples/papers/fjords_sensors/incidents.csv');

CREATE QUERY query_1 AS
  SELECT avg(s.speed) AS mean FROM sensorReadings [RANGE 30 SECONDS] AS s
    WHERE s.segment IN (1, 2);

CREATE QUERY query_1_by_segment AS
  SELECT s.segment, avg(s.speed) AS mean FROM sensorReadings [RANGE 30 SECONDS] AS s
    WHERE s.segment IN (1, 2) GROUP BY s.segment;

CREATE QUERY query_2 AS
  SELECT i.description, avg(s.speed) AS mean
    FROM incidents [RANGE 2 MINUTES] AS i, sensorReadings [RANGE 30 SECONDS] AS s
    WHERE i.segment = s.segment AND s.segment IN (1, 2)
    GROUP BY i.description HAVING 45 > avg(s.speed);

CREATE QUERY query_2_as_printed AS
  SELECT i.segment, i.description FROM incidents [RANGE 2 MINUTES] AS i
    WHERE 45 > (SELECT avg(s.speed) FROM sensorReadings [RANGE 30 SECONDS] AS s
      WHERE i.segment = s.segment AND s.segment IN (1, 2));

CREATE SINK shown TO console();
