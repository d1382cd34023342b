-- SPDX-License-Identifier: Apache-2.0
--
-- Jobs that are enqueued by a transaction of an application: tenax.enqueue checks them by the rules
-- of POST /jobs and puts them into the inbox; a rollback leaves nothing. The owner of the shard
-- takes them from there: the row goes in the transaction of the commit that has the job.

-- A name of a queue, a type, an alias or a group.
CREATE OR REPLACE FUNCTION tenax.check_name(name_ text, what_ text) RETURNS void
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF name_ IS NULL OR name_ = '' THEN
        RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = format('%s must not be empty', what_);
    ELSIF octet_length(name_) > 255 THEN
        RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE =
            format('%s is %s bytes long; at most 255 are allowed', what_, octet_length(name_));
    ELSIF name_ ~ '[\x01-\x1f\x7f]' THEN
        RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = format('%s has a control character', what_);
    ELSIF name_ ~ '[][,*?{}\\]' THEN
        RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE =
            format('%s has a reserved character; none of , * ? [ ] { } \ is allowed', what_);
    END IF;
END $$;

-- What options there are: their kinds of JSON, and the bounds of numbers, of texts in bytes, and of
-- lists in elements.
CREATE OR REPLACE FUNCTION tenax.enqueue_options()
RETURNS TABLE (name text, kind text, low bigint, high bigint, words text[])
LANGUAGE sql IMMUTABLE AS $$
    VALUES ('priority', 'number', 0::bigint, 65535::bigint, NULL::text[]),
        ('ready_at', 'number', 0, 281474976710656, NULL),
        ('retry_limit', 'number', 0, 4294967295, NULL),
        ('deadline', 'number', 1, 281474976710656, NULL),
        ('retain_until', 'number', 1, 281474976710656, NULL),
        ('unique_key', 'string', 1, 1024, NULL),
        ('unique_while', 'string', 0, 255, ARRAY['queued', 'active', 'exists']),
        ('concurrency_key', 'string', 1, 255, NULL),
        ('alias', 'name', 1, 255, NULL),
        ('group', 'name', 1, 255, NULL),
        ('group_owner', 'name', 1, 255, NULL),
        ('when_no_policy', 'string', 0, 255, ARRAY['default', 'fail']),
        ('traceparent', 'string', 55, 55, NULL),
        ('tracestate', 'string', 1, 512, NULL),
        ('when', 'string', 0, 255, ARRAY['all_completed', 'all_ended']),
        ('on_dependency_death', 'string', 0, 255, ARRAY['block', 'run', 'die']),
        ('pending_runs', 'boolean', 0, 0, NULL),
        ('hold', 'boolean', 0, 0, NULL),
        ('retry_policies', 'array', 0, 32, NULL),
        ('depends_on', 'array', 0, 100, NULL),
        ('budgets', 'array', 0, 16, NULL),
        ('backoff', 'object', 0, 0, NULL),
        ('retention', 'object', 0, 0, NULL),
        ('batch', 'object', 0, 0, NULL),
        ('resources', 'object', 0, 0, NULL),
        ('gang', 'object', 0, 0, NULL),
        ('annotations', 'object', 0, 0, NULL)
$$;

-- One option by its row of the table.
CREATE OR REPLACE FUNCTION tenax.check_option(name_ text, value_ jsonb) RETURNS void
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    o record;
    got text := jsonb_typeof(value_);
    size_ numeric;
BEGIN
    SELECT * INTO o FROM tenax.enqueue_options() WHERE name = name_;
    IF NOT FOUND THEN
        RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = format('unknown option ''%s''', left(name_, 64));
    ELSIF got = 'null' THEN
        RETURN;
    ELSIF got <> (CASE o.kind WHEN 'name' THEN 'string' ELSE o.kind END) THEN
        RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE =
            format('%s: expected JSON of type %s, not %s', name_, replace(o.kind, 'name', 'string'), got);
    END IF;
    IF o.kind = 'name' THEN
        PERFORM tenax.check_name(value_ #>> '{}', name_);
    ELSIF o.words IS NOT NULL AND NOT value_ #>> '{}' = ANY (o.words) THEN
        RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE =
            format('%s: one of %s is expected', name_, array_to_string(o.words, ', '));
    ELSIF o.kind IN ('number', 'string', 'array') THEN
        size_ := CASE o.kind WHEN 'number' THEN (value_ #>> '{}')::numeric
            WHEN 'string' THEN octet_length(value_ #>> '{}') ELSE jsonb_array_length(value_) END;
        IF size_ < o.low OR size_ > o.high THEN
            RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = format('%s: %s to %s%s, not %s', name_,
                o.low, o.high, CASE o.kind WHEN 'string' THEN ' bytes' WHEN 'array' THEN ' elements'
                ELSE '' END, size_);
        ELSIF o.kind = 'number' AND size_ <> trunc(size_) THEN
            RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE =
                format('%s: an integer is expected, not %s', name_, size_);
        END IF;
    END IF;
END $$;

-- A job's id: 48 bits of Unix time in milliseconds, 24 of a counter, 56 by chance, as 25 digits.
CREATE OR REPLACE FUNCTION tenax.make_id(counter_ bigint) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    chance bigint := ('x' || substr(replace(gen_random_uuid()::text, '-', ''), 17))::bit(64)::bigint;
    n numeric := floor(extract(epoch FROM clock_timestamp()) * 1000)::numeric * 1208925819614629174706176
        + (counter_ & 16777215)::numeric * 72057594037927936 + (chance & 72057594037927935);
    digits text := '';
BEGIN
    FOR i IN 1..25 LOOP
        digits := substr('0123456789abcdefghijklmnopqrstuvwxyz', 1 + (n % 36)::int, 1) || digits;
        n := div(n, 36);
    END LOOP;
    RETURN digits;
END $$;

-- Enqueues a job in the caller's transaction, and returns its id. The options are those of POST
-- /jobs; members of objects in them are looked at when the owner takes the job, which is put into
-- tenax.inbox_refused if they are wrong.
CREATE OR REPLACE FUNCTION tenax.enqueue(queue text, type text, payload jsonb, options jsonb DEFAULT '{}')
RETURNS text LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    queue_ CONSTANT text := enqueue.queue;
    type_ CONSTANT text := enqueue.type;
    payload_ CONSTANT jsonb := enqueue.payload;
    options_ CONSTANT jsonb := coalesce(enqueue.options, '{}');
    row_ bigint;
    job_ text;
    body_ text;
BEGIN
    PERFORM tenax.check_name(queue_, 'queue');
    PERFORM tenax.check_name(type_, 'type');
    IF payload_ IS NULL THEN
        RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE =
            'payload: any JSON is expected, also null, which is ''null''::jsonb, but not NULL';
    ELSIF jsonb_typeof(options_) <> 'object' THEN
        RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE =
            format('options: expected JSON of type object, not %s', jsonb_typeof(options_));
    END IF;
    PERFORM tenax.check_option(o.key, o.value) FROM jsonb_each(options_) o;
    IF options_ ? 'unique_while' AND NOT options_ ? 'unique_key' THEN
        RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'unique_while needs a unique_key';
    ELSIF options_ ? 'group_owner' AND NOT options_ ? 'group' THEN
        RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'group_owner needs a group';
    END IF;
    body_ := (options_ || jsonb_build_object('queue', queue_, 'type', type_, 'payload', payload_))::text;
    IF octet_length(body_) > 16777216 THEN
        RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE =
            format('the job has %s bytes; at most 16777216 are allowed', octet_length(body_));
    END IF;
    row_ := nextval('tenax.inbox_id_seq');
    job_ := tenax.make_id(row_);
    INSERT INTO tenax.inbox (id, job, body) OVERRIDING SYSTEM VALUE VALUES (row_, job_, body_);
    IF NOT EXISTS (SELECT FROM tenax.inbox_reader WHERE shard = 0 AND NOT asleep) THEN
        PERFORM pg_notify('tenax_inbox', '0');
    END IF;
    RETURN job_;
END $$;

-- What the owner of the shard calls. It says whether somebody has to wake it.
CREATE OR REPLACE FUNCTION tenax.inbox_sleep(shard_ bigint, asleep_ bigint) RETURNS void
LANGUAGE sql AS $$
    SELECT set_config('synchronous_commit', 'off', true);
    INSERT INTO tenax.inbox_reader (shard, asleep) VALUES (shard_, asleep_ <> 0)
        ON CONFLICT (shard) DO UPDATE SET asleep = excluded.asleep
$$;

-- A row that makes no job is kept, with the reason.
CREATE OR REPLACE FUNCTION tenax.inbox_refuse(shard_ bigint, epoch_ bigint, id_ bigint, reason_ text)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM tenax.hold(shard_, epoch_);
    WITH gone AS (DELETE FROM tenax.inbox WHERE id = id_ AND shard = shard_ RETURNING *)
        INSERT INTO tenax.inbox_refused (id, shard, job, body, enqueued_at, reason)
        SELECT id, shard, job, body, enqueued_at, reason_ FROM gone;
END $$;
