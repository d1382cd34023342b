-- SPDX-License-Identifier: Apache-2.0
--
-- Version 1 of the schema: its tables. Every key begins with the number of a shard of jobs; so far
-- there is one, 0.

CREATE TABLE tenax.schema_version (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    version int NOT NULL,
    -- A program that knows this version, or a later one, may use the schema.
    compatible int NOT NULL,
    -- Of this schema and no other: what servers keep of it elsewhere says so.
    cluster uuid NOT NULL DEFAULT gen_random_uuid(),
    changed_at timestamptz NOT NULL DEFAULT now()
);

-- What every commit changes. `seq` is the number of the last batch, `flushed` the last one whose
-- effects are in records; of later ones the log has the batches. Part of a page stays empty, so
-- that an update needs no new entry in the index.
CREATE TABLE tenax.shard (
    shard smallint PRIMARY KEY,
    epoch bigint NOT NULL DEFAULT 0,
    seq bigint NOT NULL DEFAULT 0,
    flushed bigint NOT NULL DEFAULT 0,
    -- Records show everything that was acknowledged before this moment.
    flushed_at timestamptz NOT NULL DEFAULT now(),
    log_current smallint NOT NULL DEFAULT 0
) WITH (fillfactor = 10, autovacuum_vacuum_threshold = 500, autovacuum_vacuum_scale_factor = 0);

-- Who owns the shard. Apart from it, so that a renewal does not wait behind a commit. `beat` is
-- another number after each renewal: other servers compare it with what they saw, and no clock.
CREATE TABLE tenax.lease (
    shard smallint PRIMARY KEY REFERENCES tenax.shard ON DELETE CASCADE,
    epoch bigint NOT NULL DEFAULT 0,
    beat bigint NOT NULL DEFAULT 0,
    owner text,
    address text,
    lease_ms bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 10, autovacuum_vacuum_threshold = 500, autovacuum_vacuum_scale_factor = 0);

-- Which batches are of which epoch: from first_seq to that of the next one.
CREATE TABLE tenax.epochs (
    shard smallint NOT NULL REFERENCES tenax.shard ON DELETE CASCADE,
    epoch bigint NOT NULL,
    first_seq bigint NOT NULL,
    owner text NOT NULL,
    taken_at timestamptz NOT NULL DEFAULT now(),
    ended_at timestamptz,
    PRIMARY KEY (shard, epoch)
);

-- The log: a row is a batch of puts and deletes. One table is written at a time (shard.log_current);
-- one whose batches are all in records is emptied as a whole.
CREATE TABLE tenax.log_0 (
    shard smallint NOT NULL,
    seq bigint NOT NULL,
    epoch bigint NOT NULL,
    batch bytea NOT NULL,
    PRIMARY KEY (shard, seq)
) WITH (autovacuum_enabled = false);
ALTER TABLE tenax.log_0 ALTER COLUMN batch SET STORAGE EXTERNAL;
CREATE TABLE tenax.log_1 (LIKE tenax.log_0 INCLUDING ALL) WITH (autovacuum_enabled = false);
CREATE TABLE tenax.log_2 (LIKE tenax.log_0 INCLUDING ALL) WITH (autovacuum_enabled = false);
CREATE TABLE tenax.log_3 (LIKE tenax.log_0 INCLUDING ALL) WITH (autovacuum_enabled = false);

-- What the server's tables had at some moment after batch `flushed`, key by key.
CREATE TABLE tenax.records (
    shard smallint NOT NULL,
    key bytea NOT NULL,
    value bytea NOT NULL,
    PRIMARY KEY (shard, key)
);
ALTER TABLE tenax.records ALTER COLUMN value SET STORAGE EXTERNAL;

-- Jobs that transactions of applications have enqueued, and the owner has not taken yet.
CREATE TABLE tenax.inbox (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    shard smallint NOT NULL DEFAULT 0,
    job text NOT NULL,
    body text NOT NULL,
    enqueued_at timestamptz NOT NULL DEFAULT now()
) WITH (autovacuum_vacuum_scale_factor = 0.01);

-- Those that the owner could not take, and why.
CREATE TABLE tenax.inbox_refused (
    id bigint PRIMARY KEY,
    shard smallint NOT NULL,
    job text NOT NULL,
    body text NOT NULL,
    enqueued_at timestamptz NOT NULL,
    refused_at timestamptz NOT NULL DEFAULT now(),
    reason text NOT NULL
);

-- Whether the owner has to be woken when there is something in the inbox.
CREATE TABLE tenax.inbox_reader (
    shard smallint PRIMARY KEY REFERENCES tenax.shard ON DELETE CASCADE,
    asleep boolean NOT NULL
) WITH (fillfactor = 10);

CREATE TABLE tenax.servers (
    shard smallint NOT NULL REFERENCES tenax.shard ON DELETE CASCADE,
    name text NOT NULL,
    address text NOT NULL,
    version text NOT NULL,
    role text NOT NULL,
    started timestamptz NOT NULL DEFAULT now(),
    seen timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (shard, name)
) WITH (fillfactor = 50);

-- By what servers know each other's requests. A UUID has 122 bits of a strong source of chance.
CREATE TABLE tenax.secret (
    shard smallint PRIMARY KEY REFERENCES tenax.shard ON DELETE CASCADE,
    secret bytea NOT NULL
);

INSERT INTO tenax.shard (shard) VALUES (0);
INSERT INTO tenax.secret (shard, secret)
    VALUES (0, sha256(convert_to(gen_random_uuid()::text || gen_random_uuid()::text, 'UTF8')));
INSERT INTO tenax.lease (shard) VALUES (0);
INSERT INTO tenax.schema_version (version, compatible) VALUES (0, 0);
