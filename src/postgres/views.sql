-- SPDX-License-Identifier: Apache-2.0
--
-- Views for people and reports, decoded from tenax.records. They show what records show: everything
-- that was acknowledged before tenax.lag.flushed_at, and of later things perhaps some. Jobs in flight
-- are shown as they were before their run, as they are stored. The layout of a value is that of the
-- server's store/record.c; decoding takes about a tenth of a millisecond a row.

-- Numbers of 7 bits a byte, the lowest first. `at` counts from 0.
CREATE OR REPLACE FUNCTION tenax.read_varint(b bytea, INOUT at int, OUT v bigint)
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE AS $$
DECLARE
    shift int := 0;
    c int;
BEGIN
    v := 0;
    LOOP
        c := get_byte(b, at);
        at := at + 1;
        IF shift < 63 THEN
            v := v | ((c & 127)::bigint << shift);
        END IF;
        EXIT WHEN c < 128;
        shift := shift + 7;
    END LOOP;
END $$;

CREATE OR REPLACE FUNCTION tenax.read_text(b bytea, INOUT at int, OUT v text)
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE AS $$
DECLARE
    len bigint;
BEGIN
    SELECT r.at, r.v INTO at, len FROM tenax.read_varint(b, at) r;
    v := convert_from(substring(b FROM at + 1 FOR len::int), 'UTF8');
    at := at + len::int;
END $$;

-- Milliseconds of Unix time, one more than is meant; 0: none.
CREATE OR REPLACE FUNCTION tenax.read_time(b bytea, INOUT at int, OUT v timestamptz)
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE AS $$
DECLARE
    ms bigint;
BEGIN
    SELECT r.at, r.v INTO at, ms FROM tenax.read_varint(b, at) r;
    v := CASE WHEN ms > 0 THEN to_timestamp((ms - 1) / 1000.0) END;
END $$;

-- Fields that only some records have: those whose numbers are in texts_ are texts, by number; the others are numbers.
CREATE OR REPLACE FUNCTION tenax.read_fields(b bytea, INOUT at int, texts_ int[], OUT texts jsonb)
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE AS $$
DECLARE
    number bigint;
    value text;
    skipped bigint;
BEGIN
    texts := '{}';
    LOOP
        SELECT r.at, r.v INTO at, number FROM tenax.read_varint(b, at) r;
        EXIT WHEN number = 0;
        IF number = ANY (texts_) THEN
            SELECT r.at, r.v INTO at, value FROM tenax.read_text(b, at) r;
            texts := texts || jsonb_build_object(number::text, value);
        ELSE
            SELECT r.at, r.v INTO at, skipped FROM tenax.read_varint(b, at) r;
        END IF;
    END LOOP;
END $$;

CREATE OR REPLACE FUNCTION tenax.read_state(b bytea, INOUT at int, OUT status text, OUT priority int,
    OUT ready_at timestamptz, OUT dequeued_at timestamptz, OUT failed_at timestamptz,
    OUT completed_at timestamptz, OUT purge_at timestamptz, OUT attempts int, OUT runs int, OUT reason text)
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE AS $$
DECLARE
    skipped bigint;
    ignored text;
BEGIN
    status := (ARRAY['blocked', 'scheduled', 'ready', 'in_flight', 'completed', 'dead'])[get_byte(b, at) + 1];
    at := at + 2;
    SELECT r.at, r.v INTO at, priority FROM tenax.read_varint(b, at) r;
    SELECT r.at, r.v INTO at, ready_at FROM tenax.read_time(b, at) r;
    SELECT r.at, r.v INTO at, dequeued_at FROM tenax.read_time(b, at) r;
    SELECT r.at, r.v INTO at, failed_at FROM tenax.read_time(b, at) r;
    SELECT r.at, r.v INTO at, completed_at FROM tenax.read_time(b, at) r;
    SELECT r.at, r.v INTO at, purge_at FROM tenax.read_time(b, at) r;
    SELECT r.at, r.v INTO at, attempts FROM tenax.read_varint(b, at) r;
    SELECT r.at, r.v INTO at, skipped FROM tenax.read_varint(b, at) r; -- forgiven
    SELECT r.at, r.v INTO at, runs FROM tenax.read_varint(b, at) r;
    SELECT r.at, r.v INTO at, skipped FROM tenax.read_varint(b, at) r; -- losses
    SELECT r.at, nullif(r.v, '') INTO at, reason FROM tenax.read_text(b, at) r;
    SELECT r.at, r.v INTO at, skipped FROM tenax.read_varint(b, at) r; -- token
    SELECT r.at, r.v INTO at, skipped FROM tenax.read_varint(b, at) r; -- end of the lease
    SELECT r.at, r.v INTO at, ignored FROM tenax.read_text(b, at) r;   -- worker
    SELECT r.at INTO at FROM tenax.read_fields(b, at, ARRAY[1, 2, 11, 61]) r;
END $$;

-- The value of a job, and that of its state, if it has one by now.
CREATE OR REPLACE FUNCTION tenax.decode_job(b bytea, state_ bytea, OUT queue text, OUT type text,
    OUT status text, OUT priority int, OUT ready_at timestamptz, OUT dequeued_at timestamptz,
    OUT failed_at timestamptz, OUT completed_at timestamptz, OUT purge_at timestamptz, OUT attempts int,
    OUT runs int, OUT reason text, OUT unique_key text, OUT alias text, OUT "group" text, OUT payload text)
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
DECLARE
    at int := 1; -- after the version
    skipped bigint;
    ignored text;
    scope int;
    fields jsonb;
    s record;
BEGIN
    SELECT r.at, r.v INTO at, queue FROM tenax.read_text(b, at) r;
    SELECT r.at, r.v INTO at, type FROM tenax.read_text(b, at) r;
    SELECT r.at, r.v INTO at, skipped FROM tenax.read_varint(b, at) r; -- retry limit
    at := at + 1;
    IF get_byte(b, at - 1) <> 0 THEN -- backoff: base, exponent, jitter
        SELECT r.at, r.v INTO at, skipped FROM tenax.read_varint(b, at) r;
        SELECT r.at, r.v INTO at, skipped FROM tenax.read_varint(b, at + 8) r;
    END IF;
    SELECT r.at, r.v INTO at, skipped FROM tenax.read_varint(b, at) r; -- retention
    SELECT r.at, r.v INTO at, skipped FROM tenax.read_varint(b, at) r;
    at := at + 1;
    IF get_byte(b, at - 1) <> 0 THEN
        SELECT r.at, r.v INTO at, unique_key FROM tenax.read_text(b, at) r;
    END IF;
    at := at + 1;
    IF get_byte(b, at - 1) <> 0 THEN -- batch: key, when, fold
        FOR i IN 1..3 LOOP
            SELECT r.at, r.v INTO at, ignored FROM tenax.read_text(b, at) r;
        END LOOP;
    END IF;
    SELECT r.at, r.texts INTO at, fields
        FROM tenax.read_fields(b, at, ARRAY[1, 11, 30, 40, 50, 60, 90, 91, 92, 93]) r;
    alias := fields ->> '40';
    "group" := fields ->> '90';
    SELECT * INTO s FROM tenax.read_state(b, at);
    at := s.at + 1;
    IF get_byte(b, at - 1) = 0 THEN
        SELECT r.v INTO payload FROM tenax.read_text(b, at) r;
    END IF;
    IF state_ IS NOT NULL THEN
        SELECT * INTO s FROM tenax.read_state(state_, 1);
    END IF;
    status := s.status;
    priority := s.priority;
    ready_at := s.ready_at;
    dequeued_at := s.dequeued_at;
    failed_at := s.failed_at;
    completed_at := s.completed_at;
    purge_at := s.purge_at;
    attempts := s.attempts;
    runs := s.runs;
    reason := s.reason;
END $$;

CREATE OR REPLACE FUNCTION tenax.decode_run(b bytea, OUT worker text, OUT ready_at timestamptz,
    OUT taken_at timestamptz, OUT ended_at timestamptz, OUT outcome text, OUT attempt int,
    OUT retry_at timestamptz, OUT reason text, OUT message text, OUT error_type text)
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE AS $$
DECLARE
    version int := get_byte(b, 0);
    at int := 1;
    skipped bigint;
BEGIN
    SELECT r.at, r.v INTO at, skipped FROM tenax.read_varint(b, at) r; -- index
    SELECT r.at, nullif(r.v, '') INTO at, worker FROM tenax.read_text(b, at) r;
    IF version >= 2 THEN
        SELECT r.at, r.v INTO at, ready_at FROM tenax.read_time(b, at) r;
    END IF;
    SELECT r.at, r.v INTO at, taken_at FROM tenax.read_time(b, at) r;
    SELECT r.at, r.v INTO at, skipped FROM tenax.read_varint(b, at) r; -- end of the lease
    SELECT r.at, r.v INTO at, ended_at FROM tenax.read_time(b, at) r;
    outcome := (ARRAY['running', 'completed', 'failed', 'claim-expired', 'worker-lost', 'returned', 'canceled',
        'gang-retried', 'deadline-exceeded', 'worker-shutdown', 'intermittent-task', 'malformed-payload',
        'resource-unavailable', 'internal-error', 'superseded'])[get_byte(b, at) + 1];
    at := at + 1;
    SELECT r.at, r.v INTO at, attempt FROM tenax.read_varint(b, at) r;
    SELECT r.at, r.v INTO at, retry_at FROM tenax.read_time(b, at) r;
    SELECT r.at, r.v INTO at, skipped FROM tenax.read_varint(b, at) r; -- end of the grace period
    SELECT r.at, nullif(r.v, '') INTO at, reason FROM tenax.read_text(b, at) r;
    SELECT r.at, nullif(r.v, '') INTO at, message FROM tenax.read_text(b, at) r;
    SELECT r.at, nullif(r.v, '') INTO at, error_type FROM tenax.read_text(b, at) r;
END $$;

-- An id of 16 bytes as 25 digits, and back.
CREATE OR REPLACE FUNCTION tenax.id_text(b bytea) RETURNS text
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE AS $$
DECLARE
    n numeric := 0;
    digits text := '';
BEGIN
    FOR i IN 0..3 LOOP
        n := n * 4294967296 + get_byte(b, 4 * i)::bigint * 16777216 + get_byte(b, 4 * i + 1) * 65536
            + get_byte(b, 4 * i + 2) * 256 + get_byte(b, 4 * i + 3);
    END LOOP;
    FOR i IN 1..25 LOOP
        digits := substr('0123456789abcdefghijklmnopqrstuvwxyz', 1 + (n % 36)::int, 1) || digits;
        n := div(n, 36);
    END LOOP;
    RETURN digits;
END $$;

CREATE OR REPLACE VIEW tenax.jobs AS
    SELECT tenax.id_text(substring(j.key FROM 2)) AS id, d.queue, d.type, d.status, d.priority, d.ready_at,
        d.dequeued_at, d.failed_at, d.completed_at, d.purge_at, d.attempts, d.runs, d.reason, d.unique_key,
        d.alias, d."group", coalesce(d.payload,
            (SELECT v FROM tenax.records p, tenax.read_text(p.value, 1)
                WHERE p.shard = j.shard AND p.key = '\x50'::bytea || substring(j.key FROM 2))) AS payload
    FROM tenax.records j
    LEFT JOIN tenax.records s ON s.shard = j.shard AND s.key = '\x53'::bytea || substring(j.key FROM 2)
    CROSS JOIN LATERAL tenax.decode_job(j.value, s.value) d
    WHERE j.key >= '\x4a'::bytea AND j.key < '\x4b'::bytea AND length(j.key) = 17;

-- Runs that have ended.
CREATE OR REPLACE VIEW tenax.runs AS
    SELECT tenax.id_text(substring(r.key FROM 2 FOR 16)) AS job,
        get_byte(r.key, 17)::bigint * 16777216 + get_byte(r.key, 18) * 65536 + get_byte(r.key, 19) * 256
            + get_byte(r.key, 20) AS run, d.*
    FROM tenax.records r CROSS JOIN LATERAL tenax.decode_run(r.value) d
    WHERE r.key >= '\x52'::bytea AND r.key < '\x53'::bytea AND length(r.key) = 21;

CREATE OR REPLACE VIEW tenax.queues AS
    SELECT d.queue, count(*) AS jobs, count(*) FILTER (WHERE d.status = 'blocked') AS blocked,
        count(*) FILTER (WHERE d.status = 'scheduled') AS scheduled,
        count(*) FILTER (WHERE d.status = 'ready') AS ready,
        count(*) FILTER (WHERE d.status = 'completed') AS completed,
        count(*) FILTER (WHERE d.status = 'dead') AS dead,
        coalesce((SELECT get_byte(q.value, 1) = 1 FROM tenax.records q
            WHERE q.shard = 0 AND q.key = '\x51'::bytea || convert_to(d.queue, 'UTF8')), false) AS paused
    FROM tenax.records j
    LEFT JOIN tenax.records s ON s.shard = j.shard AND s.key = '\x53'::bytea || substring(j.key FROM 2)
    CROSS JOIN LATERAL tenax.decode_job(j.value, s.value) d
    WHERE j.key >= '\x4a'::bytea AND j.key < '\x4b'::bytea AND length(j.key) = 17
    GROUP BY d.queue;

-- How far the other views are behind: not at all, if all batches are flushed.
CREATE OR REPLACE VIEW tenax.lag AS
    SELECT shard, seq, flushed, seq - flushed AS batches, flushed_at,
        CASE WHEN seq = flushed THEN interval '0' ELSE greatest(now() - flushed_at, interval '0') END AS age
    FROM tenax.shard;
