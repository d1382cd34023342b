-- SPDX-License-Identifier: Apache-2.0
--
-- Who may do what: the role that owns the schema everything, which is what servers need, and members
-- of tenax_producer enqueue.

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA tenax FROM PUBLIC;
GRANT USAGE ON SCHEMA tenax TO tenax_producer;
GRANT EXECUTE ON FUNCTION tenax.enqueue(text, text, jsonb, jsonb) TO tenax_producer;
