#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# openapi.py GENDOCS BASE: prints docs/openapi.json. Its paths, and the schemas of what requests
# and answers have, come from the table of endpoints (src/api/api_routes.c; `gendocs routes`); the
# rest, what is prose, and the examples, from docs/openapi.base.json. Nothing may be in both, and
# nothing may be missing.

import json
import re
import subprocess
import sys

BASIC = {"boolean", "object", "string", "integer", "number", "null"}
LIMITS = {"integer": ("minimum", "maximum"), "number": ("minimum", "maximum"),
          "string": ("minLength", "maxLength")}
# Of ids, in paths and elsewhere.
JOB_ID = {"type": "string", "description": "of a job", "pattern": "^([0-9a-e][0-9a-z]|f[0-4])[0-9a-z]{23}$"}
JOB_REF = {"type": "string", "description": "of a job; or alias:NAME",
           "pattern": "^([0-9a-z]{25}|alias:.{1,255})$"}
NUMBER_ID = {"type": "string", "description": "its number", "pattern": "^[1-9][0-9]{0,14}$"}
# Parameters of paths that are not just names, by what stands before them.
PATH = {
    "/jobs/{id}": {"$ref": "#/components/schemas/JobRef"},
    "/operations/{id}": NUMBER_ID,
    "/canary-retries/{id}": NUMBER_ID,
    "/jobs/{id}/errors/{attempt}": {"type": "integer", "minimum": 1, "maximum": 4294967295,
                                    "description": "from 1"},
}
# What names of queues, types and the like have none of.
RESERVED = r",*?\[\]{}\\\u0000-\u001f\u007f"
# Lists in one text, whose empty items are as absent.
LISTS = {"names": f"[^{RESERVED}]+", "ids": "[0-9a-z]{25}", "texts": "[^,]+"}

# An object that has no other members. Generators of clients make a class of its own of
# additionalProperties, and lose nulls beside it; they pass over this.
CLOSED = {"unevaluatedProperties": False}

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


def list_of(item):
    return f"^,*{item}(,+{item})*,*$"


def up_to(most):
    """A regular expression of the numbers from 0 to this one, without leading zeros."""
    parts = []
    for i, digit in enumerate(most):
        low = 1 if i == 0 else 0
        if int(digit) > low:
            rest = len(most) - i - 1
            some = f"[{low}-{int(digit) - 1}]" if int(digit) - 1 > low else str(low)
            parts.append(most[:i] + some + ("[0-9]{%d}" % rest if rest else ""))
    parts.append(most)
    shorter = "[1-9][0-9]{0,%d}" % (len(most) - 2) if len(most) > 1 else None
    return "|".join(["0"] + ([shorter] if shorter else []) + [p for p in parts if p != "0"])


def given(*names):
    """What an object with these members has; null is as absent."""
    return {"required": list(names), "properties": {name: {"not": {"type": "null"}} for name in names}}


def conditions(rules):
    """What members of an object have to do with each other: "a needs b c; a excludes b; any a b
    c?" (with ? null counts); without a b; off a" (which is not true); a off b" (with a, b is not true). They are put where generators of clients do not look."""
    every = []
    for rule in filter(None, map(str.strip, rules.split(";"))):
        words = rule.split()
        if words[0] == "any":
            every.append({"anyOf": [{"required": [name[:-1]]} if name[-1] == "?" else given(name)
                                    for name in words[1:]]})
        elif words[0] == "without":
            every += [{"not": given(name)} for name in words[1:]]
        elif words[0] == "off":
            every += [{"properties": {name: {"not": {"const": True}}}} for name in words[1:]]
        elif words[1] == "needs":
            every += [{"anyOf": [{"not": given(words[0])}, given(name)]} for name in words[2:]]
        elif words[1] == "off":
            for name in words[2:]:
                both = given(words[0], name)
                both["properties"][name] = {"const": True}
                every.append({"not": both})
        elif words[1] == "excludes":
            every += [{"not": given(words[0], name)} for name in words[2:]]
        else:
            faults.append(f"what rule is '{rule}'?")
    return {"if": {"type": "object"}, "then": {"allOf": every}}


def schema_of_type(text):
    """The schema of a type as src/wire/field.h writes it."""
    if text.endswith("?"):
        return or_null(schema_of_type(text[:-1]))
    if " or " in text:
        return {"oneOf": [schema_of_type(part) for part in text.split(" or ")]}
    if items := re.fullmatch(r"(.*)\[(?:(\d*)\.\.(\d*))?\]", text):
        limits = {k: int(v) for k, v in zip(("minItems", "maxItems"), items.groups()[1:]) if v}
        return {"type": "array", "items": schema_of_type(items[1]), **limits}
    if text == "any":
        return {}
    if form := re.fullmatch(r"(.*) @([\w-]+)", text):
        return {**schema_of_type(form[1]), "format": form[2]}
    if name := re.fullmatch(r"name 1\.\.(\d+)", text):
        return {"type": "string", "minLength": 1, "maxLength": int(name[1]),
                "pattern": f"^[^{RESERVED}]+$"}
    if text in LISTS:
        return {"type": "string", "pattern": list_of(LISTS[text])}
    if words := re.fullmatch(r"words \((.*)\)", text):
        return {"type": "string", "pattern": list_of(f"({words[1]})")}
    if most := re.fullmatch(r"range 0\.\.(\d+)", text):
        number = up_to(most[1])
        return {"type": "string", "pattern": f"^({number}|({number})?\\.\\.({number})?)$"}
    if re.fullmatch(r"[A-Z]\w*", text):
        return reference(text)
    kind, _, limit = text.partition(" ")
    kinds = kind.split(",")
    if not set(kinds) <= BASIC:
        faults.append(f"what type is '{text}'?")
    if len(kinds) > 1 and not limit:
        return {"anyOf": [{"type": one} for one in kinds]}
    schema = {"type": kind}
    if not limit:
        return schema
    if words := re.fullmatch(r"\((.*)\)", limit):
        return {**schema, "enum": list(dict.fromkeys(words[1].split("|")))}
    if pattern := re.fullmatch(r"/(.*)/", limit):
        return {**schema, "pattern": pattern[1]}
    if (ends := re.fullmatch(r"(-?\d*)\.\.(\d*)", limit)) and kind in LIMITS:
        return {**schema, **{k: int(v) for k, v in zip(LIMITS[kind], ends.groups()) if v}}
    faults.append(f"what limit of a type is '{limit}'?")
    return schema


def split(doc):
    """The type and the meaning. A type has no colon outside a pattern or a list of words."""
    found = re.match(r"((?:[^:/(]|\([^)]*\)|/.*/(?=[?:[]|$))+)(?:: (.*))?$", doc)
    if not found:
        faults.append(f"neither a type nor TYPE: MEANING: '{doc}'")
        return "any", None
    return found[1], found[2]


def bounded(schema):
    """The server reads no number beyond a time's limit (src/base/units.h) where it names no other."""
    whole = "integer" in [schema.get("type")] + list(schema.get("type") or [])
    if whole and "minimum" in schema and "maximum" not in schema:
        return {**schema, "maximum": 1 << 48}
    return schema


def schema_of(doc, nullable=False, limit=lambda schema: schema):
    kind, about = split(doc)
    schema = limit(schema_of_type(kind))
    return described(or_null(schema) if nullable else schema, about)


def schema_of_body(body, where):
    if "fields" not in body:
        return schema_of(body["doc"])
    schema = schema_of(body["doc"]) if "doc" in body else {"type": "object"}
    schema["properties"] = {}
    for field in body["fields"]:
        if "doc" not in field:
            faults.append(f"{where}: {field['name']} has no doc")
            continue
        schema["properties"][field["name"]] = schema_of(field["doc"], field.get("nullable", False),
                                                        bounded)
    if required := [f["name"] for f in body["fields"] if f.get("required")]:
        schema["required"] = required
    if body.get("closed"):
        schema |= CLOSED
    if "rules" in body:
        schema |= conditions(body["rules"])
    return schema


def described(schema, about):
    if about and "$ref" in schema:
        schema = {"allOf": [schema]}
    return {**schema, "description": about} if about else schema


def schema_of_row(row):
    """A member of an answer."""
    schema = schema_of_shape(row["shape"]) if "shape" in row else schema_of_type(row["type"])
    if row.get("list"):
        schema = {"type": "array", "items": schema}
    return described(or_null(schema) if row.get("nullable") else schema, row.get("doc"))


def schema_of_shape(shape):
    """What an answer, or an object in one, has: its rows and nothing else."""
    schema = {"type": "object"}
    if "doc" in shape:
        schema["description"] = shape["doc"]
    schema["properties"] = {row["name"]: schema_of_row(row) for row in shape["rows"]}
    if len(schema["properties"]) < len(shape["rows"]):
        faults.append(f"a member twice: {[row['name'] for row in shape['rows']]}")
    if required := [row["name"] for row in shape["rows"] if row.get("required")]:
        schema["required"] = required
    return schema | CLOSED


def parameter(given, route, examples):
    schema, operation_id = schema_of(given["doc"]), route["id"]
    about = schema.pop("description", None)
    out = {"name": given["name"], "in": "header" if given.get("header") else "query"}
    out |= {"description": about, "schema": schema}
    if given.get("required"):
        out["required"] = True
    elif out["in"] == "query" and route["method"] == "GET":
        out["allowEmptyValue"] = True  # as if it were not there
        if schema.get("pattern", "").startswith("^,*"):
            schema["pattern"] = f"^,*({schema['pattern'][3:-3]})?,*$"
    example = examples.get(f"{operation_id}.{given['name']}", examples.get(given["name"]))
    return out if example is None else {**out, "example": example}


def path_parameters(path):
    for found in re.finditer(r"\{(\w+)\}", path):
        name = found[1]
        schema = PATH.get(path[:found.end()]) or {"type": "string", "description": "a name",
                                                  "minLength": 1}
        yield {"name": name, "in": "path", "required": True, "schema": schema}


def schema_of_answer(shapes):
    schemas = [reference(s["name"]) if "name" in s else schema_of_shape(s) for s in shapes]
    return {"anyOf": schemas} if len(schemas) > 1 else schemas[0]


def responses(answers, example):
    out = {}
    for answer in answers:
        if "shapes" in answer and answer["doc"][0] != "@":
            content = {"application/json": {"schema": schema_of_answer(answer["shapes"])}}
            out[str(answer["status"])] = {"description": answer["doc"], "content": content}
            continue
        kind, about = split(answer["doc"]) if answer["doc"][0] != "@" else (answer["doc"], None)
        if kind[0] == "@":
            out[str(answer["status"])] = {"$ref": f"#/components/responses/{kind[1:]}"}
        elif kind == "none":
            out[str(answer["status"])] = {"description": about}
        else:
            content = {"application/json": {"schema": schema_of_type(kind)}}
            out[str(answer["status"])] = {"description": about, "content": content}
    if example is not None:
        add_example(out, example)
    for key, name in (("4XX", "Refused"), ("5XX", "Failed")):
        out[key] = {"$ref": f"#/components/responses/{name}"}
    return out


def add_example(answers, example):
    """To the first answer that has a body; it is one of what the tables describe."""
    bodies = [a["content"]["application/json"] for a in answers.values() if "content" in a]
    bodies[0]["example"] = example


def has_body(route):
    return any("shapes" in a and a["doc"][0] != "@" and a["status"] < 300 for a in route["answers"])


def operation(route, examples, used):
    out = {"tags": [], "operationId": route["id"], "summary": route["summary"], "description": ""}
    # Roles, for a scheme of tokens: those with the right that the operation needs.
    out["security"] = [{"token": [route["right"]]}] if route["right"] != "none" else []
    parameters = list(path_parameters(route["path"]))
    parameters += [parameter(p, route, examples["parameters"]) for p in route["params"]]
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
    answer = examples["answers"].get(route["id"])
    if (answer is not None) != has_body(route):
        faults.append(f"{route['id']}: an example of its answer is " +
                      ("missing" if answer is None else "there, which has no body"))
    out["responses"] = responses(route["answers"], answer if has_body(route) else None)
    return out


def walk(node, where=""):
    """Every object of the document, and where it is."""
    if isinstance(node, dict):
        if not where.endswith("/properties"):  # which are names, not keywords
            yield node, where
        for key, value in node.items():
            if key not in ("example", "examples"):
                yield from walk(value, f"{where}/{key}")
    if isinstance(node, list):
        for i, item in enumerate(node):
            yield from walk(item, f"{where}/{i}")


def references(node):
    if isinstance(node, dict):
        if isinstance(node.get("$ref"), str):
            yield node["$ref"]
        node = list(node.values())
    if isinstance(node, list):
        for item in node:
            yield from references(item)


# What requests and answers may say differently of the same members.
SAID = {"description", *CLOSED, "maxItems", "minItems", "pattern", "format", "if",
        "then", *sum(LIMITS.values(), ())}


def bare(schema):
    """Its types alone, without limits and what is said about it."""
    out = {k: v for k, v in schema.items() if k not in SAID}
    if "properties" in out:
        out["properties"] = {k: bare(v) for k, v in out["properties"].items()}
    return out


def add_schemas(tables, schemas):
    schemas["JobId"] = JOB_ID
    schemas["JobRef"] = JOB_REF
    names = [table["name"] for kind in ("words", "shapes") for table in tables[kind]]
    for name in sorted({name for name in names if names.count(name) > 1}):
        faults.append(f"{name} is the name of two tables")
    for words in tables["words"]:
        schemas[words["name"]] = described(schema_of_type(words["type"]), words.get("doc"))
    for shape in tables["shapes"]:
        schemas[shape["name"]] = schema_of_shape(shape)
    for body in tables["bodies"]:
        schema = schema_of_body(body, body["name"])
        answer = schemas.get(body["name"])
        if answer and bare(answer) != bare(schema):
            faults.append(f"{body['name']} is not the same in requests and in answers")
        schemas[body["name"]] = schema


# --- what generators of clients can read ---

def kinds_of(schema):
    kinds = schema.get("type", [])
    return set(kinds if isinstance(kinds, list) else [kinds])


def inline_scalars_or_null(document, schemas):
    """Of a named scalar or null they make a class without a value: its limits are repeated."""
    for node, _ in walk(document):
        rest = [one for one in node.get("oneOf", []) if one != {"type": "null"}]
        if len(rest) != 1 or len(node["oneOf"]) == 1 or "$ref" not in rest[0]:
            continue
        named = schemas.get(rest[0]["$ref"].split("/")[-1], {})
        if len(kinds_of(named)) == 1 and not kinds_of(named) & {"object", "array"} and "enum" not in named:
            about = node.get("description")
            node.clear()
            node |= described(or_null(named), about)


def check_readable(node, where):
    members = node.get("properties") if isinstance(node.get("properties"), dict) else {}
    kinds = kinds_of(node) - {"null"}
    if "object" in kinds and "null" in kinds_of(node) and members:
        faults.append(f"{where}: an object with members, or null: give its table a name")
    if len(kinds) > 1:
        faults.append(f"{where}: several types in one list")
    if isinstance(node.get("enum"), list):
        words = [str(word).lower() for word in node["enum"] if word is not None]
        if len(words) > len(set(words)):
            faults.append(f"{where}: words that differ in case alone")


def check_names(schemas):
    """They derive names from these: of constructors, and of the type of a member."""
    for name, schema in schemas.items():
        if name.startswith("New") and name[3:] in schemas:
            faults.append(f"{name}: a generated {name[3:]} has a constructor of that name")
        for member, value in schema.get("properties", {}).items():
            words = re.split("[^A-Za-z0-9]+", member)
            made = name + "".join(word[:1].upper() + word[1:] for word in words)
            if made in schemas and {"properties", "enum", "oneOf", "anyOf"} & set(value):
                faults.append(f"{made}: a generated {name} has a type of that name for {member}")


def check_generators(document, schemas):
    for node, where in walk(document):
        check_readable(node, where)
    check_names(schemas)


def all_operations(paths):
    return [one for item in paths.values() for one in item.values()]


def describe_operations(document, tags, paths):
    """tags: of each the names of its operations, and what is said about them."""
    if list(tags) != [tag["name"] for tag in document["tags"]]:
        faults.append("docs/openapi.base.json: tags and operations name different tags")
    said = [(name, tag, text) for tag, texts in tags.items() for name, text in texts.items()]
    of = {name: (tag, text) for name, tag, text in said}
    if len(of) < len(said):
        faults.append("docs/openapi.base.json: an operation has two tags")
    for one in all_operations(paths):
        tag, text = of.pop(one["operationId"], (None, None))
        if not text:
            faults.append(f"{one['operationId']}: docs/openapi.base.json has no tag and description of it")
        one |= {"tags": [tag], "description": text}
    for name in of:
        faults.append(f"docs/openapi.base.json: describes {name}, which is no operation")


def objects(schema, name):
    """Every object in a schema that has members, and how its description calls it."""
    yield from ([(schema, name)] if "properties" in schema else [])
    for member, inner in schema.get("properties", {}).items():
        yield from objects(inner, f"{name}.{member}")
    if isinstance(schema.get("items"), dict):
        yield from objects(schema["items"], name)


def all_objects(schemas, paths):
    for name, schema in schemas.items():
        yield from objects(schema, name)
    for one in all_operations(paths):
        body = one.get("requestBody", {"content": {"application/json": {"schema": {}}}})
        yield from objects(body["content"]["application/json"]["schema"], one["operationId"])


def describe_members(words, schemas, paths):
    """Of members whose tables say nothing: by Schema.member, or else by the name alone."""
    used = set()
    for schema, name in all_objects(schemas, paths):
        for member, inner in schema["properties"].items():
            key = f"{name}.{member}" if f"{name}.{member}" in words else member
            if "description" in inner:
                continue
            if key not in words:
                faults.append(f"{name}.{member}: neither its table nor docs/openapi.base.json describes it")
            used.add(key)
            schema["properties"][member] = described(inner, words.get(key))
    for key in sorted(set(words) - used):
        faults.append(f"docs/openapi.base.json: describes {key}, which has a description or is not there")


def widen_integers(document):
    """Without a format they are 32 bits wide to some generators, and times are wider."""
    for node, _ in walk(document):
        if "integer" in kinds_of(node) and not (-(1 << 31) <= node.get("minimum", -(1 << 63)) and
                                                node.get("maximum", 1 << 63) < 1 << 31):
            node.setdefault("format", "int64")


def build(tables, base):
    examples, tags, words = base.pop("examples"), base.pop("operations"), base.pop("members")
    if "paths" in base:
        faults.append("docs/openapi.base.json: paths come from the table of endpoints")
    used, paths = set(), {}
    for route in tables["routes"]:
        item = paths.setdefault(route["path"], {})
        item[route["method"].lower()] = operation(route, examples, used)
    for name in sorted(set(examples["answers"]) - {route["id"] for route in tables["routes"]}):
        faults.append(f"docs/openapi.base.json: an answer of {name}, which is no operation")
    for name in sorted(set(examples["bodies"]) - used):
        faults.append(f"docs/openapi.base.json: an example of {name}, which takes no body")
    if "schemas" in base["components"]:
        faults.append("docs/openapi.base.json: schemas come from the tables of fields and members")
    base["components"]["schemas"] = {}
    add_schemas(tables, base["components"]["schemas"])
    document = {}
    for key, value in base.items():
        if key == "components":
            document["paths"] = paths
        document[key] = value
    describe_operations(document, tags, paths)
    describe_members(words, base["components"]["schemas"], paths)
    widen_integers(document)
    inline_scalars_or_null(document, base["components"]["schemas"])
    check_generators(document, base["components"]["schemas"])
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
