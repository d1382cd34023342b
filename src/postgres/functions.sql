-- SPDX-License-Identifier: Apache-2.0
--
-- What the servers call. Each call is a transaction of its own, so that no lock is held while
-- PostgreSQL waits for a server, which may have been stopped. SQLSTATEs of our own:
--     TX001  another server has taken the shard since
--     TX002  rows of the inbox that the batch was to take are not there
--     TX003  the shard is behind what the caller knows of it

-- Why a statement of that epoch changed nothing. seq_ is the last batch that the caller knows of, or
-- NULL.
CREATE OR REPLACE FUNCTION tenax.fence(shard_ bigint, epoch_ bigint, seq_ bigint) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    s tenax.shard;
BEGIN
    SELECT * INTO s FROM tenax.shard WHERE shard = shard_;
    IF s.epoch > epoch_ OR (s.epoch = epoch_ AND seq_ IS NULL) THEN
        RAISE EXCEPTION USING ERRCODE = 'TX001', MESSAGE =
            format('shard %s is not owned in epoch %s any more; it is at %s', shard_, epoch_, s.epoch);
    END IF;
    RAISE EXCEPTION USING ERRCODE = 'TX003', MESSAGE =
        format('shard %s is at epoch %s, batch %s, not at epoch %s, batch %s', shard_, s.epoch, s.seq,
            epoch_, seq_);
END $$;

-- Raises while there is an alarm: nobody owns the shard then.
CREATE OR REPLACE FUNCTION tenax.heed(shard_ bigint) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    a tenax.alarm;
BEGIN
    SELECT * INTO a FROM tenax.alarm WHERE shard = shard_;
    IF FOUND THEN
        RAISE EXCEPTION USING ERRCODE = 'TX003', MESSAGE =
            format('%s has found that commits are lost: %s', a.server, a.why);
    END IF;
END $$;

-- Whether the shard lacks batch seq_, which somebody has seen when epoch_ was the newest epoch, and
-- nobody has accepted that. Epochs of which so many were let go of that this one may be among them
-- count as known.
CREATE OR REPLACE FUNCTION tenax.lacks(shard_ bigint, epoch_ bigint, seq_ bigint) RETURNS boolean
LANGUAGE sql STABLE AS $$
    SELECT epoch_ > s.accepted AND (s.epoch < epoch_ OR s.seq < seq_ OR
            (epoch_ > (SELECT min(e.epoch) FROM tenax.epochs e WHERE e.shard = s.shard) AND NOT EXISTS
                (SELECT FROM tenax.epochs e WHERE e.shard = s.shard AND e.epoch = epoch_)) OR
            coalesce((SELECT min(e.first_seq) - 1 FROM tenax.epochs e
                WHERE e.shard = s.shard AND e.epoch > epoch_), s.seq) < seq_)
        FROM tenax.shard s WHERE s.shard = shard_
$$;

-- Raises the alarm, unless it was raised or the loss was accepted; others hear of it. epoch_ and
-- seq_ are what the server knows of.
CREATE OR REPLACE FUNCTION tenax.raise_alarm(shard_ bigint, server_ text, epoch_ bigint, seq_ bigint,
    why_ text) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO tenax.alarm (shard, server, epoch, seq, why)
        SELECT s.shard, server_, epoch_, seq_, why_ FROM tenax.shard s
            WHERE s.shard = shard_ AND s.accepted < epoch_
        ON CONFLICT DO NOTHING;
    IF FOUND THEN
        PERFORM pg_notify('tenax_lease', shard_::text);
    END IF;
    RETURN FOUND;
END $$;

-- Ends the alarm: what servers know of epochs up to now, epoch_ among them, may be missing. The
-- step is larger than that of several owners, so that no epoch that was lost is above it. Returns
-- the epoch, which nobody owns; an owner is fenced off.
CREATE OR REPLACE FUNCTION tenax.accept_loss(shard_ bigint, server_ text, epoch_ bigint) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    fresh bigint;
    last bigint;
BEGIN
    SELECT greatest(l.epoch, epoch_, coalesce(a.epoch, 0)) + 16777216 INTO fresh
        FROM tenax.lease l LEFT JOIN tenax.alarm a USING (shard) WHERE l.shard = shard_ FOR UPDATE OF l;
    UPDATE tenax.lease SET epoch = fresh, beat = beat + 1 + floor(random() * 1000)::bigint,
            owner = NULL, address = NULL WHERE shard = shard_;
    UPDATE tenax.epochs SET ended_at = now() WHERE shard = shard_ AND ended_at IS NULL;
    UPDATE tenax.shard SET epoch = fresh, accepted = fresh WHERE shard = shard_ RETURNING seq INTO last;
    INSERT INTO tenax.epochs (shard, epoch, first_seq, owner, ended_at)
        VALUES (shard_, fresh, last + 1, server_ || ' accepts lost commits', now());
    DELETE FROM tenax.alarm WHERE shard = shard_;
    RETURN fresh;
END $$;

-- Appends batch seq_, which takes those rows of the inbox with it.
CREATE OR REPLACE FUNCTION tenax.commit(shard_ bigint, epoch_ bigint, seq_ bigint, batch_ bytea,
    inbox_ bigint[], sum_ bytea) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    slot smallint;
    taken bigint;
BEGIN
    UPDATE tenax.shard SET seq = seq_ WHERE shard = shard_ AND epoch = epoch_ AND seq = seq_ - 1
        RETURNING log_current INTO slot;
    IF slot IS NULL THEN
        PERFORM tenax.fence(shard_, epoch_, seq_ - 1);
    END IF;
    CASE slot
        WHEN 0 THEN INSERT INTO tenax.log_0 VALUES (shard_, seq_, epoch_, batch_, sum_);
        WHEN 1 THEN INSERT INTO tenax.log_1 VALUES (shard_, seq_, epoch_, batch_, sum_);
        WHEN 2 THEN INSERT INTO tenax.log_2 VALUES (shard_, seq_, epoch_, batch_, sum_);
        WHEN 3 THEN INSERT INTO tenax.log_3 VALUES (shard_, seq_, epoch_, batch_, sum_);
    END CASE;
    IF inbox_ IS NOT NULL THEN
        DELETE FROM tenax.inbox WHERE id = ANY (inbox_);
        GET DIAGNOSTICS taken = ROW_COUNT;
        IF taken <> cardinality(inbox_) THEN
            RAISE EXCEPTION USING ERRCODE = 'TX002', MESSAGE =
                format('%s of the %s rows of the inbox are there', taken, cardinality(inbox_));
        END IF;
    END IF;
END $$;

-- The same for servers that know version 1 only.
CREATE OR REPLACE FUNCTION tenax.commit(shard_ bigint, epoch_ bigint, seq_ bigint, batch_ bytea,
    inbox_ bigint[]) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM tenax.commit(shard_, epoch_, seq_, batch_, inbox_, NULL);
END $$;

-- Changes nothing, but is durable only after everything before it is, on standbys as well.
CREATE OR REPLACE FUNCTION tenax.settle(shard_ bigint, epoch_ bigint) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    at bigint;
BEGIN
    UPDATE tenax.shard SET seq = seq WHERE shard = shard_ AND epoch = epoch_ RETURNING seq INTO at;
    IF at IS NULL THEN
        PERFORM tenax.fence(shard_, epoch_, NULL);
    END IF;
    RETURN at;
END $$;

-- An empty shard begins after that batch.
CREATE OR REPLACE FUNCTION tenax.begin_at(shard_ bigint, epoch_ bigint, seq_ bigint) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    UPDATE tenax.shard SET seq = seq_, flushed = seq_
        WHERE shard = shard_ AND epoch = epoch_ AND seq = 0 AND flushed = 0;
    IF NOT FOUND THEN
        PERFORM tenax.fence(shard_, epoch_, NULL);
    END IF;
END $$;

-- The new epoch; NULL if anything has changed since (epoch_, beat_) was read. Epochs rise by random
-- steps: one that a fail-over of PostgreSQL has forgotten never comes again. A lease given up may be
-- taken at once. Whoever wrote of the epoch before has ended by then: a commit has the row of
-- tenax.shard, a flush that of tenax.epochs.
CREATE OR REPLACE FUNCTION tenax.take(shard_ bigint, epoch_ bigint, beat_ bigint, owner_ text,
    address_ text, lease_ms_ bigint) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    fresh bigint := epoch_ + 1 + floor(random() * 1048576)::bigint;
    last bigint;
BEGIN
    PERFORM tenax.heed(shard_);
    UPDATE tenax.lease SET epoch = fresh, beat = beat + 1 + floor(random() * 1000)::bigint,
            owner = owner_, address = address_, lease_ms = lease_ms_
        WHERE shard = shard_ AND epoch = epoch_ AND beat = beat_;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    UPDATE tenax.epochs SET ended_at = now() WHERE shard = shard_ AND epoch = epoch_;
    UPDATE tenax.shard SET epoch = fresh WHERE shard = shard_ RETURNING seq INTO last;
    INSERT INTO tenax.epochs (shard, epoch, first_seq, owner) VALUES (shard_, fresh, last + 1, owner_);
    DELETE FROM tenax.epochs old USING (SELECT epoch FROM tenax.epochs WHERE shard = shard_
            ORDER BY epoch DESC OFFSET 10000 LIMIT 1) bound
        WHERE old.shard = shard_ AND old.epoch <= bound.epoch;
    RETURN fresh;
END $$;

-- Renews the lease. Nobody's data depends on a beat: if a crash forgets one, others see a change.
CREATE OR REPLACE FUNCTION tenax.beat(shard_ bigint, epoch_ bigint) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    fresh bigint;
BEGIN
    PERFORM tenax.heed(shard_);
    -- Until the end of the transaction: a SET of the function would end before its commit.
    PERFORM set_config('synchronous_commit', 'off', true);
    UPDATE tenax.lease SET beat = beat + 1 + floor(random() * 1000)::bigint
        WHERE shard = shard_ AND epoch = epoch_ AND owner IS NOT NULL RETURNING beat INTO fresh;
    IF fresh IS NULL THEN
        PERFORM tenax.fence(shard_, epoch_, NULL);
    END IF;
    RETURN fresh;
END $$;

-- The same of an owner to which batch seq_ was acknowledged.
CREATE OR REPLACE FUNCTION tenax.beat(shard_ bigint, epoch_ bigint, seq_ bigint) RETURNS bigint
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM tenax.shard WHERE shard = shard_ AND epoch = epoch_ AND seq < seq_;
    IF FOUND THEN
        PERFORM tenax.fence(shard_, epoch_, seq_);
    END IF;
    RETURN tenax.beat(shard_, epoch_);
END $$;

-- Gives the lease up; others hear of it. False if it was not held.
CREATE OR REPLACE FUNCTION tenax.release(shard_ bigint, epoch_ bigint) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    UPDATE tenax.lease SET beat = beat + 1 + floor(random() * 1000)::bigint, owner = NULL, address = NULL
        WHERE shard = shard_ AND epoch = epoch_ AND owner IS NOT NULL;
    IF FOUND THEN
        PERFORM pg_notify('tenax_lease', shard_::text);
        RETURN true;
    END IF;
    RETURN false;
END $$;

-- Holds off tenax.take until the end of the transaction, or raises if there was one.
CREATE OR REPLACE FUNCTION tenax.hold(shard_ bigint, epoch_ bigint) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM tenax.epochs WHERE shard = shard_ AND epoch = epoch_ AND ended_at IS NULL FOR SHARE;
    IF NOT FOUND THEN
        PERFORM tenax.fence(shard_, epoch_, NULL);
    END IF;
END $$;

-- Brings records up to date: those keys have those values now, or are gone where a value is NULL.
CREATE OR REPLACE FUNCTION tenax.flush(shard_ bigint, epoch_ bigint, keys_ bytea[], values_ bytea[],
    gone_ bytea[], sums_ bytea[]) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM tenax.hold(shard_, epoch_);
    INSERT INTO tenax.records AS r SELECT shard_, k, v, s FROM unnest(keys_, values_, sums_) AS t (k, v, s)
        ON CONFLICT (shard, key) DO UPDATE SET value = excluded.value, sum = excluded.sum
        WHERE r.value IS DISTINCT FROM excluded.value OR r.sum IS DISTINCT FROM excluded.sum;
    DELETE FROM tenax.records WHERE shard = shard_ AND key = ANY (gone_);
END $$;

-- The same for servers that know version 1 only.
CREATE OR REPLACE FUNCTION tenax.flush(shard_ bigint, epoch_ bigint, keys_ bytea[], values_ bytea[],
    gone_ bytea[]) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM tenax.flush(shard_, epoch_, keys_, values_, gone_, NULL);
END $$;

-- Records hold everything up to that batch, and what was acknowledged before at_, in microseconds
-- of Unix time, if it is not 0: the log may let go of it. What a clock said that was set back counts
-- no more.
CREATE OR REPLACE FUNCTION tenax.flushed(shard_ bigint, epoch_ bigint, seq_ bigint, at_ bigint)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    UPDATE tenax.shard SET flushed = greatest(flushed, seq_),
            flushed_at = CASE WHEN at_ <> 0 AND flushed_at > clock_timestamp()
                THEN to_timestamp(at_ / 1000000.0)
                ELSE greatest(flushed_at, to_timestamp(at_ / 1000000.0)) END
        WHERE shard = shard_ AND epoch = epoch_ AND seq >= seq_;
    IF NOT FOUND THEN
        PERFORM tenax.fence(shard_, epoch_, seq_);
    END IF;
END $$;

-- The log goes on in its next table, if that is empty: whether it does.
CREATE OR REPLACE FUNCTION tenax.rotate(shard_ bigint, epoch_ bigint) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    slot smallint;
    used boolean;
BEGIN
    SELECT (log_current + 1) % 4 INTO slot FROM tenax.shard WHERE shard = shard_ AND epoch = epoch_;
    IF slot IS NULL THEN
        PERFORM tenax.fence(shard_, epoch_, NULL);
    END IF;
    EXECUTE format('SELECT EXISTS (SELECT FROM tenax.log_%s WHERE shard = $1)', slot) INTO used USING shard_;
    IF used THEN
        RETURN false;
    END IF;
    UPDATE tenax.shard SET log_current = slot WHERE shard = shard_ AND epoch = epoch_;
    IF NOT FOUND THEN
        PERFORM tenax.fence(shard_, epoch_, NULL);
    END IF;
    RETURN true;
END $$;

-- Empties a table of the log if records hold all of its batches, of every shard. Whoever reads it
-- is waited for half a second at most (55P03). Nobody writes to it: it is not the current one.
CREATE OR REPLACE FUNCTION tenax.let_go(shard_ bigint, epoch_ bigint, slot_ bigint) RETURNS boolean
LANGUAGE plpgsql SET lock_timeout = '500ms' AS $$
DECLARE
    needed boolean;
BEGIN
    PERFORM tenax.hold(shard_, epoch_);
    EXECUTE format('LOCK TABLE tenax.log_%s IN ACCESS EXCLUSIVE MODE', slot_);
    EXECUTE format('SELECT EXISTS (SELECT FROM tenax.shard WHERE log_current = %1$s) OR EXISTS (SELECT FROM
        tenax.shard s WHERE (SELECT max(seq) FROM tenax.log_%1$s l WHERE l.shard = s.shard) > s.flushed)',
        slot_) INTO needed;
    IF NOT needed THEN
        EXECUTE format('TRUNCATE tenax.log_%s', slot_);
    END IF;
    RETURN NOT needed;
END $$;

-- The log, with every row that is not in records, and perhaps some that are.
CREATE OR REPLACE VIEW tenax.log AS
    SELECT 0::smallint AS slot, l.* FROM tenax.log_0 l UNION ALL
    SELECT 1::smallint, l.* FROM tenax.log_1 l UNION ALL
    SELECT 2::smallint, l.* FROM tenax.log_2 l UNION ALL
    SELECT 3::smallint, l.* FROM tenax.log_3 l;

-- Its tables: the last batch of the shard in each, NULL if there is none, and what it takes.
CREATE OR REPLACE FUNCTION tenax.log_tables(shard_ bigint)
RETURNS TABLE (slot smallint, last bigint, bytes bigint) LANGUAGE sql STABLE AS $$
    SELECT 0::smallint, (SELECT max(seq) FROM tenax.log_0 WHERE shard = shard_),
        pg_total_relation_size('tenax.log_0') UNION ALL
    SELECT 1::smallint, (SELECT max(seq) FROM tenax.log_1 WHERE shard = shard_),
        pg_total_relation_size('tenax.log_1') UNION ALL
    SELECT 2::smallint, (SELECT max(seq) FROM tenax.log_2 WHERE shard = shard_),
        pg_total_relation_size('tenax.log_2') UNION ALL
    SELECT 3::smallint, (SELECT max(seq) FROM tenax.log_3 WHERE shard = shard_),
        pg_total_relation_size('tenax.log_3')
$$;
