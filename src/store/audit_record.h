/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STORE_AUDIT_RECORD_H
#define STORE_AUDIT_RECORD_H

/* The part of the audit that looks at records which are about no single job. */

#include "base/err.h"
#include "base/str.h"

/* False if the key is of none of these kinds; else *err says whether the value decodes. */
bool audit_record_check(struct str key, struct str value, struct err *err);

#endif
