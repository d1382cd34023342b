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

-- What options there are, and the members of those that are objects: kinds of JSON, the bounds of
-- numbers, of texts in bytes, and of lists in elements, what texts must be, and what must be there.
CREATE OR REPLACE FUNCTION tenax.enqueue_fields()
RETURNS TABLE (part_of text, name text, kind text, low bigint, high bigint, words text[], pattern text,
    needed boolean)
LANGUAGE sql IMMUTABLE AS $$
    VALUES ('', 'priority', 'integer', 0::bigint, 65535::bigint, NULL::text[], NULL::text, false),
        ('', 'ready_at', 'integer', 0, 281474976710656, NULL, NULL, false),
        ('', 'retry_limit', 'integer', 0, 4294967295, NULL, NULL, false),
        ('', 'deadline', 'integer', 1, 281474976710656, NULL, NULL, false),
        ('', 'retain_until', 'integer', 1, 281474976710656, NULL, NULL, false),
        ('', 'max_run_ms', 'integer', 1, 281474976710656, NULL, NULL, false),
        ('', 'retry_for_ms', 'integer', 1, 281474976710656, NULL, NULL, false),
        ('', 'unique_key', 'string', 1, 1024, NULL, NULL, false),
        ('', 'unique_while', 'string', 0, 255, ARRAY['queued', 'active', 'exists'], NULL, false),
        ('', 'concurrency_key', 'string', 1, 255, NULL, NULL, false),
        ('', 'alias', 'name', 1, 255, NULL, NULL, false),
        ('', 'group', 'name', 1, 255, NULL, NULL, false),
        ('', 'group_owner', 'name', 1, 255, NULL, NULL, false),
        ('', 'when_no_policy', 'string', 0, 255, ARRAY['default', 'fail'], NULL, false),
        ('', 'traceparent', 'string', 55, 55, NULL, '^00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$', false),
        ('', 'tracestate', 'string', 1, 512, NULL, '^[ -~]*$', false),
        ('', 'when', 'string', 0, 255, ARRAY['all_completed', 'all_ended'], NULL, false),
        ('', 'on_dependency_death', 'string', 0, 255, ARRAY['block', 'run', 'die'], NULL, false),
        ('', 'pending_runs', 'boolean', 0, 0, NULL, NULL, false),
        ('', 'hold', 'boolean', 0, 0, NULL, NULL, false),
        ('', 'retry_policies', 'array', 0, 32, NULL, NULL, false),
        ('retry_policies', '[]', 'name', 1, 255, NULL, NULL, true),
        ('', 'depends_on', 'array', 0, 100, NULL, NULL, false),
        ('depends_on', '[]', 'string', 25, 25, NULL, '^[0-9A-Za-z]*$', true),
        ('', 'budgets', 'array', 0, 16, NULL, NULL, false),
        ('budgets', '[]', 'object', 0, 0, NULL, NULL, true),
        ('budgets[]', 'key', 'name', 1, 255, NULL, NULL, true),
        ('budgets[]', 'cost', 'integer', 1, 2147483647, NULL, NULL, false),
        ('budgets[]', 'create_with', 'any', 0, 0, NULL, NULL, false),
        ('', 'backoff', 'object', 0, 0, NULL, NULL, false),
        ('backoff', 'base_ms', 'integer', -1000, 281474976710656, NULL, NULL, true),
        ('backoff', 'exponent', 'number', 0, 100, NULL, NULL, true),
        ('backoff', 'jitter_ms', 'integer', 0, 281474976710656, NULL, NULL, true),
        ('', 'retention', 'object', 0, 0, NULL, NULL, false),
        ('retention', 'completed_ms', 'integer', 0, 281474976710656, NULL, NULL, false),
        ('retention', 'dead_ms', 'integer', 0, 281474976710656, NULL, NULL, false),
        ('', 'batch', 'object', 0, 0, NULL, NULL, false),
        ('batch', 'key', 'string', 1, 1024, NULL, NULL, true),
        ('batch', 'when', 'string', 0, 16384, NULL, NULL, true),
        ('batch', 'fold', 'string', 0, 16384, NULL, NULL, true),
        ('', 'resources', 'object', 0, 0, NULL, NULL, false),
        ('resources', 'memory', 'amount', 0, 0, NULL, '^[0-9]+([.][0-9]+)?([KMGTPE]i|[kMGTPE])?$', false),
        ('resources', 'cpu', 'amount', 0, 0, NULL, '^[0-9]+([.][0-9]+)?m?$', false),
        ('', 'gang', 'object', 0, 0, NULL, NULL, false),
        ('gang', 'id', 'name', 1, 255, NULL, NULL, true),
        ('gang', 'cardinality', 'integer', 1, 1000, NULL, NULL, true),
        ('', 'annotations', 'object', 0, 0, NULL, NULL, false)
$$;

CREATE OR REPLACE FUNCTION tenax.refuse_field(name_ text, why_ text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = format('%s: %s', name_, why_);
END $$;

-- The kinds of JSON that a field may be.
CREATE OR REPLACE FUNCTION tenax.is_kind(kind_ text, got_ text) RETURNS boolean
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE kind_ WHEN 'any' THEN true WHEN 'name' THEN got_ = 'string'
        WHEN 'integer' THEN got_ = 'number' WHEN 'amount' THEN got_ IN ('string', 'number')
        ELSE got_ = kind_ END
$$;

-- What the pattern of that field stands for.
CREATE OR REPLACE FUNCTION tenax.expected(name_ text) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE name_ WHEN 'memory' THEN 'an amount like 512Mi, 4Gi or 500M'
        WHEN 'cpu' THEN 'an amount of CPUs like 500m, 2 or 1.5'
        WHEN 'traceparent' THEN 'a text like 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01'
        WHEN 'tracestate' THEN 'printable ASCII' ELSE 'a job''s id, of 25 letters and digits,' END
$$;

-- One field by its row of the table; in messages it is called shown_.
CREATE OR REPLACE FUNCTION tenax.check_field(part_of_ text, name_ text, value_ jsonb, shown_ text)
RETURNS void LANGUAGE plpgsql IMMUTABLE AS $$
#variable_conflict use_column
DECLARE
    o record;
    got CONSTANT text := jsonb_typeof(value_);
    whole CONSTANT text := part_of_ || CASE WHEN part_of_ = '' OR name_ = '[]' THEN '' ELSE '.' END || name_;
    size_ numeric;
BEGIN
    SELECT * INTO o FROM tenax.enqueue_fields() WHERE part_of = part_of_ AND name = name_;
    IF NOT FOUND THEN
        RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = format('unknown option ''%s''', left(shown_, 64));
    ELSIF got = 'null' AND NOT o.needed THEN
        RETURN;
    ELSIF NOT tenax.is_kind(o.kind, got) THEN
        PERFORM tenax.refuse_field(shown_, format('expected JSON of type %s, not %s', CASE o.kind
            WHEN 'name' THEN 'string' WHEN 'integer' THEN 'number' WHEN 'amount' THEN 'string'
            ELSE o.kind END, got));
    ELSIF o.kind = 'name' THEN
        PERFORM tenax.check_name(value_ #>> '{}', shown_);
    ELSIF o.words IS NOT NULL AND NOT value_ #>> '{}' = ANY (o.words) THEN
        PERFORM tenax.refuse_field(shown_, format('one of %s is expected', array_to_string(o.words, ', ')));
    ELSIF o.kind IN ('integer', 'number', 'string', 'array') THEN
        size_ := CASE got WHEN 'number' THEN (value_ #>> '{}')::numeric
            WHEN 'string' THEN octet_length(value_ #>> '{}') ELSE jsonb_array_length(value_) END;
        IF size_ < o.low OR size_ > o.high THEN
            PERFORM tenax.refuse_field(shown_, format('%s to %s%s, not %s', o.low, o.high, CASE o.kind
                WHEN 'string' THEN ' bytes' WHEN 'array' THEN ' elements' ELSE '' END, size_));
        ELSIF o.kind = 'integer' AND size_ <> trunc(size_) THEN
            PERFORM tenax.refuse_field(shown_, format('an integer is expected, not %s', size_));
        END IF;
    END IF;
    IF o.pattern IS NOT NULL AND value_ #>> '{}' !~ o.pattern THEN
        PERFORM tenax.refuse_field(shown_, format('%s is expected, not ''%s''', tenax.expected(o.name),
            left(value_ #>> '{}', 64)));
    ELSIF o.kind = 'object' AND o.name <> 'annotations' THEN
        PERFORM tenax.check_field(whole, e.key, e.value, shown_ || '.' || e.key) FROM jsonb_each(value_) e;
        PERFORM tenax.refuse_field(shown_ || '.' || f.name, 'it is missing') FROM tenax.enqueue_fields() f
            WHERE f.part_of = whole AND f.needed AND NOT value_ ? f.name;
    ELSIF o.kind = 'array' THEN
        PERFORM tenax.check_field(whole, '[]', e.value, format('%s[%s]', shown_, e.n - 1))
            FROM jsonb_array_elements(value_) WITH ORDINALITY e (value, n);
    END IF;
END $$;

-- What a job may not have at once, of options that are right by themselves.
CREATE OR REPLACE FUNCTION tenax.check_together(options_ jsonb) RETURNS void LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    o CONSTANT jsonb := jsonb_strip_nulls(options_);
    waits CONSTANT boolean := o ? 'depends_on' AND o -> 'depends_on' <> '[]';
    why CONSTANT text := CASE
        WHEN o ? 'unique_while' AND NOT o ? 'unique_key' THEN 'unique_while needs a unique_key'
        WHEN o ? 'group_owner' AND NOT o ? 'group' THEN 'group_owner needs a group'
        WHEN o ? 'tracestate' AND NOT o ? 'traceparent' THEN 'tracestate: it is nothing without a traceparent'
        WHEN o ? 'gang' AND o ? 'concurrency_key' THEN 'gang: its members have no concurrency_key'
        WHEN o ? 'gang' AND o ?| ARRAY['batch', 'unique_key'] THEN
            'gang: its members are jobs of their own, without a batch or a unique_key'
        WHEN o ? 'batch' AND o ?| ARRAY['alias', 'deadline', 'group', 'unique_key'] THEN
            'a job with a batch takes in others; it has no alias, deadline, group or unique_key'
        WHEN o ? 'batch' AND (waits OR o -> 'hold' = 'true') THEN
            'a job with a batch takes in others while it is ready; it cannot be held or wait for others'
        WHEN waits AND o ->> 'when' = 'all_ended' AND o ->> 'on_dependency_death' = 'die' THEN
            'on_dependency_death: what waits for all_ended does not die of a death'
        END;
BEGIN
    IF why IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = why;
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
-- /jobs. What cannot be seen here is seen when the owner takes the job, which is put into
-- tenax.inbox_refused then.
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
    PERFORM tenax.check_field('', o.key, o.value, o.key) FROM jsonb_each(options_) o;
    PERFORM tenax.check_together(options_);
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
