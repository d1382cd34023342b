-- SPDX-License-Identifier: Apache-2.0
--
-- Version 2 of the schema: the alarm, which servers have room for a copy, and checksums.

-- PostgreSQL lacks commits that a server knows of: nobody owns the jobs until somebody has accepted
-- that. There is a row as long as nobody has.
CREATE TABLE tenax.alarm (
    shard smallint PRIMARY KEY REFERENCES tenax.shard ON DELETE CASCADE,
    raised_at timestamptz NOT NULL DEFAULT now(),
    server text NOT NULL, -- which noticed
    epoch bigint NOT NULL, -- the newest batch that it knows of
    seq bigint NOT NULL,
    why text NOT NULL
);

-- What servers know of this epoch, and of those before it, may be missing: that was accepted.
ALTER TABLE tenax.shard ADD COLUMN accepted bigint NOT NULL DEFAULT 0;

-- Whether the server's disk has room for a copy: it should own the jobs rather than one without.
ALTER TABLE tenax.servers ADD COLUMN room boolean NOT NULL DEFAULT true;

-- CRC-32C, four bytes, big-endian: of a batch's number and epoch (eight bytes each) and bytes; of a
-- record's key and value. NULL: written by a server that knew version 1 only.
ALTER TABLE tenax.log_0 ADD COLUMN sum bytea;
ALTER TABLE tenax.log_1 ADD COLUMN sum bytea;
ALTER TABLE tenax.log_2 ADD COLUMN sum bytea;
ALTER TABLE tenax.log_3 ADD COLUMN sum bytea;
ALTER TABLE tenax.records ADD COLUMN sum bytea;
