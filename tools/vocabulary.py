#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# vocabulary.py GENDOCS SOURCE: holds the enumerations of docs/openapi.json, and the lists in other
# documents that are written by hand, against the tables of the program. Every enumeration must be
# one of a table, or be named here as one that no table has. And docs/api.md has to mention every
# path and parameter of docs/openapi.json, which a test over HTTP holds against the table of routes.

import json
import pathlib
import re
import subprocess
import sys

gendocs, source = sys.argv[1], pathlib.Path(sys.argv[2])
lines = subprocess.run([gendocs, "vocabulary"], check=True, capture_output=True, text=True).stdout
tables = {line.split()[0]: set(line.split()[1:]) for line in lines.splitlines()}
faults = []

# Enumerations, by the schema or member that has them.
TABLE_OF = {
    "ErrorCode": "error",
    "Resolution": "resolution",
    "Cause": "cause",
    "Status": "status",
    "from": "status",
    "to": "status",
    "event": "event",
    "outcome": "outcome",
    "exception": "outcome",
    "condition": "condition",
    "MatchedCondition": "condition",
    "culprit": "culprit",
    "Culprit": "culprit",
    "decided_by": "decided_by",
    "unique_while": "unique_while",
    "when": "when",
    "when_no_policy": "when_no_policy",
    "on_dependency_death": "on_dependency_death",
    "kind": "explain",
    "type": "strategy",
}
OF_NO_TABLE = {
    "order": [{"asc", "desc"}, {"last_seen", "first_seen", "count", "last_hour"}],
    "status": [{"ok", "clock", "read_only", "unreadable", "no_owner", "commits_hang", "owner_silent"}],  # of GET /health
    "event": [{"gap"}],  # in GET /events
    "messages": [{"taskcluster"}],  # likewise
    "role": [{"owner"}],  # of GET /health
    "from": [{"owner"}],  # of GET /health and /metrics
    # of operations, of what of them can be undone, of retries with canaries
    "state": [{"running", "done", "stopped", "failed"}, {"available", "running", "done", "expired"},
              {"canary", "rest", "done", "failed", "stopped"}],
    # of a canary; of one of many reports
    "outcome": [{"waiting", "succeeded"}, {"success", "failure", "release", "progress", "renew"}],
    # why an undo left a job as it was
    "reason": [{"deleted", "in_flight", "ended", "changed", "retention", "unique_key", "alias", "group",
                "gang", "budget", "unreadable"}],
    "type": [{"Normal", "Warning"}],  # of an event of Kubernetes
    "trend": [{"new", "rising", "steady", "falling", "quiet"}],  # of a group of failures
    # of the actors of GET /audit; of operations
    "kind": [{"anonymous", "token", "certificate", "jwt", "hawk", "server"},
             {"delete", "patch", "cancel", "retry", "undo"}],
}
# Of documents: they are described by the lists that they are read by.
OF_READERS = {"apiVersion", "action", "defaultAction", "operator", "mode", "retryLimitPer",
              "whenNoPolicy", "globalMaxRetriesExempt"}

NOT_SAID = {"condition": {"LeaseExpired"},
            "exception": {"running", "completed", "failed", "claim-expired", "worker-lost", "returned",
                          "canceled", "gang-retried", "deadline-exceeded"}}

# Lists in documents: file, what surrounds them, table. The words are those between backticks that
# are in no parentheses; of the rows of a table, the first. Behind that, what is left out.
TEXT = "text"
ROWS = "rows"
LISTS = [
    ("docs/why.md", r"\n\| `kind` \|[^\n]*\n\|[-|]*\n(.*?)\n\n", ROWS, "explain"),
    ("docs/why.md", r"\n\| outcome \|[^\n]*\n\|[-|]*\n(.*?)\n\n", ROWS, "outcome", "running completed"),
    ("docs/api.md", r"\nThe kinds: (.*?)\. A ready job", TEXT, "explain"),
    ("docs/api.md", r"\n\| `strategy` \|[^\n]*\n\|[-|]*\n(.*?)\n\n", ROWS, "strategy"),
    ("docs/api.md", r"\nOutcomes: (.*?)\n\n", TEXT, "outcome"),
    ("docs/api.md", r"`resolution` \| of a dead job: (.*?) \|", TEXT, "resolution"),
    ("docs/api.md", r"\| `status` \| (.*?); see", TEXT, "status"),
    ("docs/api.md", r"\| `event` \| (.*?) \|\n", TEXT, "event"),
    ("docs/api.md", r"\n\| `unique_while` \|[^\n]*\n\|[-|]*\n(.*?)\n\n", ROWS, "unique_while"),
    ("docs/api.md", r"\n- `when`: (.*?)\n- ", TEXT, "when"),
    ("docs/api.md", r"\| `decided_by` \| .*?: (.*?) \|\n", TEXT, "decided_by"),
    ("docs/api.md", r"`condition` \((.*?)\)", TEXT, "condition", "LeaseExpired"),
    ("docs/api.md", r"`culprit` \((.*?)\)", TEXT, "culprit"),
    ("docs/policies.md", r"\| `onConditions` \| a list of (.*?) \|", TEXT, "condition"),
]


def compare(where, words, table):
    for word in sorted(tables[table] - words):
        faults.append(f"{where}: lacks '{word}' ({table})")
    for word in sorted(words - tables[table]):
        faults.append(f"{where}: has '{word}', which the program does not know ({table})")


def enumerations(node, path, owner):
    if isinstance(node, list):
        for i, item in enumerate(node):
            yield from enumerations(item, f"{path}/{i}", owner)
    if not isinstance(node, dict):
        return
    if isinstance(node.get("enum"), list):
        yield path, owner, {word for word in node["enum"] if word is not None}
    for name, item in node.items():
        own = name if path.endswith(("/properties", "/schemas")) else node.get("name", owner)
        yield from enumerations(item, f"{path}/{name}", own)


def check_openapi(document):
    seen = set()
    for path, owner, words in enumerations(document, "", ""):
        where = f"docs/openapi.json: {path}"
        if words in OF_NO_TABLE.get(owner, []) or owner in OF_READERS:
            continue
        if owner not in TABLE_OF:
            faults.append(f"{where}: of which table? Say so in tools/vocabulary.py")
            continue
        seen.add(TABLE_OF[owner])
        if re.search("/requestBody/|/schemas/(Failure|ReportInput)/", path):  # what clients do not say
            words = words | NOT_SAID.get(owner, set())
        compare(where, words, TABLE_OF[owner])
    for table in sorted(set(tables) - seen):
        faults.append(f"docs/openapi.json: has no enumeration of {table}")


def words_of(text, form):
    if form == ROWS:
        return set(re.findall(r"^\| `([^`]+)`", text, re.MULTILINE))
    return set(re.findall(r"`([^`]+)`", re.sub(r"\([^)]*\)", "", text)))


def check_lists():
    for file, surroundings, form, table, *left_out in LISTS:
        text = (source / file).read_text(encoding="utf-8")
        found = re.search(surroundings, text, re.DOTALL)
        if found:
            compare(file, words_of(found[1], form).union(*map(str.split, left_out)), table)
        else:
            faults.append(f"{file}: where is its list of {table}? See tools/vocabulary.py")


def check_api(document):
    text = (source / "docs/api.md").read_text(encoding="utf-8")
    for path, item in document["paths"].items():
        short = "…/" + "/".join(path.split("/")[3:])
        if not re.search(rf"[` ]{re.escape(path)}[`? ]", text) and f"`{short}`" not in text:
            faults.append(f"docs/api.md: does not mention {path}")
        for parameter in (p for op in item.values() for p in op.get("parameters", [])):
            if "$ref" in parameter:
                parameter = document["components"]["parameters"][parameter["$ref"].split("/")[-1]]
            name = parameter["name"]
            if parameter["in"] == "query" and f"`{name}`" not in text and f"{name}=" not in text:
                faults.append(f"docs/api.md: does not mention the parameter {name} of {path}")


with open(source / "docs/openapi.json", encoding="utf-8") as f:
    openapi = json.load(f)
check_openapi(openapi)
check_lists()
check_api(openapi)
print("\n".join(faults) or f"{len(tables)} tables are as the documents say")
sys.exit(1 if faults else 0)
