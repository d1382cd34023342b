/* SPDX-License-Identifier: Apache-2.0 */
#include "store/audit_record.h"

#include "base/array.h"
#include "store/record.h"

/* Each as audit_record_check, of one kind. */

static bool check_ended(struct str key, struct str value, struct err *err)
{
    uint64_t seq;
    struct id id;
    enum depend_end end;
    if (!record_key_is_ended(key, &seq))
        return false;
    *err = record_read_ended(value, &id, &end);
    return true;
}

static bool check_cron(struct str key, struct str value, struct err *err)
{
    struct id id;
    struct cron_group group;
    struct cron_entry entry;
    struct cron_clock clock;
    if (record_key_is_cron_group(key, &id))
        *err = record_read_cron_group(value, id, &group);
    else if (record_key_is_cron_entry(key, &id))
        *err = record_read_cron_entry(value, id, &entry);
    else if (record_key_is_cron_clock(key, &id))
        *err = record_read_cron_clock(value, &clock);
    else
        return false;
    return true;
}

static bool check_resource(struct str key, struct str value, struct err *err)
{
    char kind;
    struct str name, body;
    uint64_t version;
    if (!record_key_is_resource(key, &kind, &name))
        return false;
    *err = record_read_resource(value, &version, &body);
    return true;
}

static bool check_queue(struct str key, struct str value, struct err *err)
{
    struct str name;
    struct queue_record queue;
    if (!record_key_is_queue(key, &name))
        return false;
    *err = record_read_queue(value, &queue);
    return true;
}

static bool check_group(struct str key, struct str value, struct err *err)
{
    struct str name;
    struct group_record group;
    if (!record_key_is_group(key, &name))
        return false;
    *err = record_read_group(value, name, &group);
    return true;
}

static bool check_budget(struct str key, struct str value, struct err *err)
{
    struct str name;
    struct budget budget;
    if (!record_key_is_budget(key, &name))
        return false;
    *err = record_read_budget(value, name, &budget);
    return true;
}

static bool check_kv(struct str key, struct str value, struct err *err)
{
    struct kv_entry e;
    uint64_t newest;
    struct record_answers all;
    struct record_key newest_key = record_kv_newest_key(), answers_key = record_answers_key();
    if (record_key_is_kv(key, &e.space, &e.key))
        *err = record_read_kv(value, &e);
    else if (record_key_is_kv_expiry(key, &e.expires, &e.space, &e.key))
        *err = record_check_kv_expiry(value);
    else if (str_eq(key, record_key_view(&newest_key)))
        *err = record_read_kv_newest(value, &newest);
    else if (str_eq(key, record_key_view(&answers_key)))
        *err = record_read_answers(value, &all);
    else
        return false;
    return true;
}

static bool check_failure_group(struct str key, struct str value, struct err *err)
{
    uint64_t fingerprint;
    struct failure_group group;
    if (!record_key_is_failure_group(key, &fingerprint))
        return false;
    *err = record_read_failure_group(value, fingerprint, &group);
    return true;
}

bool audit_record_check(struct str key, struct str value, struct err *err)
{
    static bool (*const checks[])(struct str, struct str, struct err *) = {
        check_ended, check_cron,   check_resource, check_queue,
        check_group, check_budget, check_kv,       check_failure_group,
    };
    for (size_t i = 0; i < COUNT(checks); i++)
        if (checks[i](key, value, err))
            return true;
    return false;
}
