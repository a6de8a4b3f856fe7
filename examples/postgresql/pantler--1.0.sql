-- Hints move the blocks of all users of a server: only superusers call these functions until they
-- are granted.

CREATE FUNCTION pantler_connections() RETURNS integer
AS 'MODULE_PATHNAME', 'pantler_connections_sql' LANGUAGE C STRICT;

CREATE FUNCTION pantler_set_priority(relation regclass, priority integer) RETURNS void
AS 'MODULE_PATHNAME', 'pantler_set_priority_sql' LANGUAGE C STRICT;

CREATE FUNCTION pantler_set_policy(priority integer, policy text) RETURNS void
AS 'MODULE_PATHNAME', 'pantler_set_policy_sql' LANGUAGE C STRICT;

CREATE FUNCTION pantler_done_with(relation regclass) RETURNS void
AS 'MODULE_PATHNAME', 'pantler_done_with_sql' LANGUAGE C STRICT;

CREATE FUNCTION pantler_clear() RETURNS void
AS 'MODULE_PATHNAME', 'pantler_clear_sql' LANGUAGE C STRICT;

REVOKE ALL ON FUNCTION pantler_connections(), pantler_set_priority(regclass, integer),
    pantler_set_policy(integer, text), pantler_done_with(regclass), pantler_clear() FROM PUBLIC;
