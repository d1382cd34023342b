# SPDX-License-Identifier: Apache-2.0
"""Objects of Kubernetes as its published OpenAPI documents describe them.

Reads YAML documents from standard input and writes them as a list in JSON, each checked against the
models of python3-kubernetes, which are generated from those documents: unknown members, missing ones
and values of another type are errors.
"""
import datetime
import json
import re
import sys

import kubernetes.client as models
import yaml

SIMPLE = {'str': str, 'int': int, 'bool': bool, 'float': (int, float)}


class Wrong(Exception):
    pass


def check_list(kind, value, at):
    if not isinstance(value, list):
        raise Wrong(f'{at}: expected a list')
    return [check(kind, item, f'{at}[{i}]') for i, item in enumerate(value)]


def check_map(kind, value, at):
    if not isinstance(value, dict):
        raise Wrong(f'{at}: expected a map')
    return {key: check(kind, item, f'{at}.{key}') for key, item in value.items()}


def check_model(model, value, at):
    if not isinstance(value, dict):
        raise Wrong(f'{at}: expected an object')
    names = {member: name for name, member in model.attribute_map.items()}
    known = {}
    for member, item in value.items():
        if member not in names:
            raise Wrong(f'{at}.{member}: {model.__name__} has no such member')
        name = names[member]
        known[name] = check(model.openapi_types[name], item, f'{at}.{member}')
    try:
        return model(**known)
    except ValueError as err:
        raise Wrong(f'{at}: {err}') from None


def check(kind, value, at):
    parts = re.fullmatch(r'(list\[|dict\(str, )(.*)[\])]', kind)
    if parts:
        return (check_list if parts[1] == 'list[' else check_map)(parts[2], value, at)
    if kind in SIMPLE:
        if not isinstance(value, SIMPLE[kind]) or (kind != 'bool' and isinstance(value, bool)):
            raise Wrong(f'{at}: expected {kind}, found {value!r}')
        return value
    if kind == 'object':  # a number or a name, or anything
        return value
    if kind == 'datetime':
        if not isinstance(value, (str, datetime.datetime)):
            raise Wrong(f'{at}: expected a time')
        return value
    return check_model(getattr(models, kind), value, at)


def model_of(value):
    group, _, version = value['apiVersion'].rpartition('/')
    name = version.capitalize() + value['kind']
    if not hasattr(models, name) or group == 'extensions':
        raise Wrong(f'{value["apiVersion"]} {value["kind"]}: no such kind')
    return name


def main():
    values = [value for value in yaml.safe_load_all(sys.stdin) if value is not None]
    for value in values:
        try:
            check(model_of(value), value, value['kind'])
        except Wrong as err:
            sys.exit(f'{value["kind"]} {value["metadata"].get("name")}: {err}')
    json.dump(values, sys.stdout)


main()
