#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# openapi.py GENDOCS BASE: prints docs/openapi.json. Its paths, and the schemas of what requests
# have, come from the table of endpoints (src/api/api_routes.c; `gendocs routes`); the rest, the
# schemas of answers and the examples, from docs/openapi.base.json. Nothing may be in both, and
# nothing may be missing.

import json
import re
import subprocess
import sys

BASIC = {"boolean", "object", "string", "integer", "number", "null"}
LIMITS = {"integer": ("minimum", "maximum"), "string": ("minLength", "maxLength")}
# Parameters of paths that are not just names.
PATH = {
    "id": {"$ref": "#/components/schemas/JobId"},
    "attempt": {"type": "integer", "minimum": 1, "description": "from 1"},
}

faults = []


def reference(name):
    return {"$ref": f"#/components/schemas/{name}"}


def or_null(schema):
    if not schema or schema.get("type") == "null":
        return schema
    if "$ref" in schema:
        return {"oneOf": [schema, {"type": "null"}]}
    kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    schema = {**schema, "type": kinds + ["null"]}
    if "enum" in schema:
        schema["enum"] = schema["enum"] + [None]
    return schema


def schema_of_type(text):
    """The schema of a type as src/wire/field.h writes it."""
    if text.endswith("?"):
        return or_null(schema_of_type(text[:-1]))
    if items := re.fullmatch(r"(.*)\[(?:\.\.(\d+))?\]", text):
        most = {"maxItems": int(items[2])} if items[2] else {}
        return {"type": "array", "items": schema_of_type(items[1]), **most}
    if text == "any":
        return {}
    if re.fullmatch(r"[A-Z]\w*", text):
        return reference(text)
    kind, _, limit = text.partition(" ")
    kinds = kind.split(",")
    if not set(kinds) <= BASIC:
        faults.append(f"what type is '{text}'?")
    schema = {"type": kinds if len(kinds) > 1 else kind}
    if not limit:
        return schema
    if words := re.fullmatch(r"\((.*)\)", limit):
        return {**schema, "enum": words[1].split("|")}
    if pattern := re.fullmatch(r"/(.*)/", limit):
        return {**schema, "pattern": pattern[1]}
    if (ends := re.fullmatch(r"(\d*)\.\.(\d*)", limit)) and kind in LIMITS:
        return {**schema, **{k: int(v) for k, v in zip(LIMITS[kind], ends.groups()) if v}}
    faults.append(f"what limit of a type is '{limit}'?")
    return schema


def split(doc):
    """The type and the meaning. A type has no colon outside a pattern."""
    found = re.match(r"((?:[^:/]|/.*/(?=[?:[]|$))+)(?:: (.*))?$", doc)
    if not found:
        faults.append(f"neither a type nor TYPE: MEANING: '{doc}'")
        return "any", None
    return found[1], found[2]


def schema_of(doc, nullable=False):
    kind, about = split(doc)
    schema = schema_of_type(kind)
    schema = or_null(schema) if nullable else schema
    if about and "$ref" in schema:
        schema = {"allOf": [schema]}
    return {**schema, "description": about} if about else schema


def schema_of_body(body, where):
    if "fields" not in body:
        return schema_of(body["doc"])
    schema = schema_of(body["doc"]) if "doc" in body else {"type": "object"}
    schema["properties"] = {}
    for field in body["fields"]:
        if "doc" not in field:
            faults.append(f"{where}: {field['name']} has no doc")
            continue
        schema["properties"][field["name"]] = schema_of(field["doc"], field.get("nullable", False))
    if required := [f["name"] for f in body["fields"] if f.get("required")]:
        schema["required"] = required
    if body.get("closed"):
        schema["additionalProperties"] = False
    return schema


def parameter(given, operation_id, examples):
    schema = schema_of(given["doc"])
    about = schema.pop("description", None)
    out = {"name": given["name"], "in": "header" if given.get("header") else "query"}
    out |= {"description": about, "schema": schema}
    example = examples.get(f"{operation_id}.{given['name']}", examples.get(given["name"]))
    return out if example is None else {**out, "example": example}


def path_parameters(path):
    for name in re.findall(r"\{(\w+)\}", path):
        schema = PATH.get(name) or {"type": "string", "description": "a name"}
        yield {"name": name, "in": "path", "required": True, "schema": schema}


def responses(answers):
    out = {}
    for answer in answers:
        kind, about = split(answer["doc"]) if answer["doc"][0] != "@" else (answer["doc"], None)
        if kind[0] == "@":
            out[str(answer["status"])] = {"$ref": f"#/components/responses/{kind[1:]}"}
        elif kind == "none":
            out[str(answer["status"])] = {"description": about}
        else:
            content = {"application/json": {"schema": schema_of_type(kind)}}
            out[str(answer["status"])] = {"description": about, "content": content}
    for key, name in (("4XX", "Refused"), ("5XX", "Failed")):
        out[key] = {"$ref": f"#/components/responses/{name}"}
    return out


def operation(route, examples, used):
    out = {"operationId": route["id"], "summary": route["summary"]}
    if "more" in route:
        out["description"] = route["more"]
    parameters = list(path_parameters(route["path"]))
    parameters += [parameter(p, route["id"], examples["parameters"]) for p in route["params"]]
    if parameters:
        out["parameters"] = parameters
    if body := route.get("body"):
        if route["id"] not in examples["bodies"]:
            faults.append(f"{route['id']}: an example of its body is missing")
        used.add(route["id"])
        named = "name" in body and body["name"] != "Failure"
        schema = reference(body["name"]) if named else schema_of_body(body, route["id"])
        content = {"example": examples["bodies"].get(route["id"]), "schema": schema}
        out["requestBody"] = {"required": not body["optional"],
                              "content": {"application/json": content}}
    out["responses"] = responses(route["answers"])
    return out


def references(node):
    if isinstance(node, dict):
        if isinstance(node.get("$ref"), str):
            yield node["$ref"]
        node = list(node.values())
    if isinstance(node, list):
        for item in node:
            yield from references(item)


def build(tables, base):
    examples = base.pop("examples")
    if "paths" in base:
        faults.append("docs/openapi.base.json: paths come from the table of endpoints")
    used, paths = set(), {}
    for route in tables["routes"]:
        item = paths.setdefault(route["path"], {})
        item[route["method"].lower()] = operation(route, examples, used)
    for name in sorted(set(examples["bodies"]) - used):
        faults.append(f"docs/openapi.base.json: an example of {name}, which takes no body")
    schemas = base["components"]["schemas"]
    for body in tables["schemas"]:
        if body["name"] in schemas:
            faults.append(f"docs/openapi.base.json: {body['name']} comes from a table of fields")
        schemas[body["name"]] = schema_of_body(body, body["name"])
    document = {}
    for key, value in base.items():
        if key == "components":
            document["paths"] = paths
        document[key] = value
    for ref in sorted(set(references(document))):
        _, _, kind, name = ref.split("/")
        if name not in base["components"].get(kind, {}):
            faults.append(f"{name} is nowhere described")
    return document


def pretty(node, indent=0, column=0):
    """As json.dumps, but what fits on a line stands on one."""
    flat = json.dumps(node, ensure_ascii=False)
    if not isinstance(node, (dict, list)) or not node or column + len(flat) <= 98:
        return flat
    inner, end = " " * (indent + 2), "\n" + " " * indent
    if isinstance(node, list):
        parts = [inner + pretty(item, indent + 2, indent + 2) for item in node]
        return "[\n" + ",\n".join(parts) + end + "]"
    parts = []
    for key, value in node.items():
        head = f"{inner}{json.dumps(key, ensure_ascii=False)}: "
        parts.append(head + pretty(value, indent + 2, len(head)))
    return "{\n" + ",\n".join(parts) + end + "}"


def main(gendocs, base):
    text = subprocess.run([gendocs, "routes"], check=True, capture_output=True, text=True).stdout
    with open(base, encoding="utf-8") as f:
        document = build(json.loads(text), json.load(f))
    for fault in faults:
        print(f"tools/openapi.py: {fault}", file=sys.stderr)
    if faults:
        sys.exit(1)
    print(pretty(document))


main(*sys.argv[1:])
