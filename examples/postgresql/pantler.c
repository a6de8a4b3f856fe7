/*
 * An extension for PostgreSQL: what it knows about the blocks of its relations, told to the run
 * that its server belongs to, and to the mount that its files are on.
 */
#include "postgres.h"

#include <fcntl.h>
#include <unistd.h>

#include "fmgr.h"
#include "storage/fd.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"

#include <pantler.h>

PG_MODULE_MAGIC;

PG_FUNCTION_INFO_V1(pantler_connections_sql);
PG_FUNCTION_INFO_V1(pantler_set_priority_sql);
PG_FUNCTION_INFO_V1(pantler_set_policy_sql);
PG_FUNCTION_INFO_V1(pantler_done_with_sql);
PG_FUNCTION_INFO_V1(pantler_clear_sql);

/* Fails with what the library said. */
static void
check(int answer, const char *what)
{
    if (answer)
        ereport(ERROR, (errcode_for_file_access(), errmsg("pantler: %s: %m", what)));
}

/* Carries out a call for each segment of a relation; files are closed when the query fails. */
static void
each_segment(Oid relation, int (*call)(int file, int value), int value, const char *what)
{
    LOCAL_FCINFO(asked, 1);
    char *first;
    Datum path;

    InitFunctionCallInfoData(*asked, NULL, 1, InvalidOid, NULL, NULL);
    asked->args[0].value = ObjectIdGetDatum(relation);
    asked->args[0].isnull = false;
    path = pg_relation_filepath(asked);
    if (asked->isnull)
        ereport(ERROR, (errcode(ERRCODE_WRONG_OBJECT_TYPE), errmsg("pantler: relation %u has no file", relation)));
    first = TextDatumGetCString(path);
    for (int segment = 0;; segment++)
    {
        char *name = segment ? psprintf("%s.%d", first, segment) : first;
        int file = OpenTransientFile(name, O_RDONLY | PG_BINARY);

        if (file < 0 && errno == ENOENT && segment > 0)
            return;
        if (file < 0)
            ereport(ERROR, (errcode_for_file_access(), errmsg("pantler: file \"%s\": %m", name)));
        check(call(file, value), what);
        CloseTransientFile(file);
    }
}

static int
done_with(int file, int ignored)
{
    return pantler_done_with(file, 0, PG_INT64_MAX);
}

Datum
pantler_connections_sql(PG_FUNCTION_ARGS)
{
    PG_RETURN_INT32(pantler_connections());
}

Datum
pantler_set_priority_sql(PG_FUNCTION_ARGS)
{
    each_segment(PG_GETARG_OID(0), pantler_set_priority, PG_GETARG_INT32(1), "set priority");
    PG_RETURN_VOID();
}

Datum
pantler_set_policy_sql(PG_FUNCTION_ARGS)
{
    check(pantler_set_policy(PG_GETARG_INT32(0), text_to_cstring(PG_GETARG_TEXT_PP(1))), "set policy");
    PG_RETURN_VOID();
}

Datum
pantler_done_with_sql(PG_FUNCTION_ARGS)
{
    each_segment(PG_GETARG_OID(0), done_with, 0, "done with");
    PG_RETURN_VOID();
}

Datum
pantler_clear_sql(PG_FUNCTION_ARGS)
{
    check(pantler_clear(), "clear");
    PG_RETURN_VOID();
}
