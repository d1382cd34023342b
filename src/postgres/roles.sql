-- SPDX-License-Identifier: Apache-2.0
--
-- Who may do what: the role that owns the schema everything, which is what servers need; members of
-- tenax_producer enqueue, and those of tenax_reader read the views.

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA tenax FROM PUBLIC;
GRANT USAGE ON SCHEMA tenax TO tenax_producer;
GRANT EXECUTE ON FUNCTION tenax.enqueue(text, text, jsonb, jsonb) TO tenax_producer;

-- Who reads the views. The role is made where whoever installs the schema may make one.
DO $$
BEGIN
    IF to_regrole('tenax_reader') IS NULL THEN
        CREATE ROLE tenax_reader NOLOGIN;
    END IF;
EXCEPTION WHEN duplicate_object OR unique_violation THEN
    NULL; -- somebody has just made it
WHEN insufficient_privilege THEN
    RAISE NOTICE 'the role tenax_reader is missing, and this one may not make it';
END $$;
DO $$
BEGIN
    IF to_regrole('tenax_reader') IS NOT NULL THEN
        GRANT USAGE ON SCHEMA tenax TO tenax_reader;
        GRANT SELECT ON tenax.jobs, tenax.runs, tenax.queues, tenax.lag TO tenax_reader;
        GRANT EXECUTE ON FUNCTION tenax.read_varint, tenax.read_text, tenax.read_time, tenax.read_fields,
            tenax.read_state, tenax.decode_job, tenax.decode_run, tenax.id_text TO tenax_reader;
    END IF;
END $$;
