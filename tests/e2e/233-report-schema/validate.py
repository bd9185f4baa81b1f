"""validate.py SCHEMA REPORT... - is each report valid? And is the schema one that can refuse?

Of the first two reports every required member is taken away in turn, and every member that the schema names is replaced by a list of a list:
none of these may be valid. Draft 2020-12, by the package jsonschema. SPDX-License-Identifier: Apache-2.0
"""
import copy
import json
import sys

import jsonschema

schema = json.load(open(sys.argv[1]))
jsonschema.Draft202012Validator.check_schema(schema)
validator = jsonschema.Draft202012Validator(schema)


def why(report):
    """The innermost reasons."""
    todo, found = list(validator.iter_errors(report)), []
    while todo:
        e = todo.pop(0)
        todo += e.context or []
        if not e.context:
            found.append("/".join(map(str, e.absolute_path)) + ": " + e.message[:100])
    return found


def resolve(rule):
    while "$ref" in rule:
        rule = schema["$defs"][rule["$ref"].rsplit("/", 1)[1]]
    if "oneOf" in rule:
        rule = next(r for r in map(resolve, rule["oneOf"]) if r.get("type") != "null")
    return rule


def places(rule, value, path=()):
    """The paths of all members that the rule names and the value has, and whether they are required. Of a list: the first item's."""
    rule = resolve(rule)
    if isinstance(value, dict):
        for key, member in value.items():
            known = rule.get("properties", {}).get(key) or rule.get("additionalProperties")
            if isinstance(known, dict):
                yield path + (key,), key in rule.get("required", [])
                yield from places(known, member, path + (key,))
    elif isinstance(value, list) and value and "items" in rule:
        yield from places(rule["items"], value[0], path + (0,))


def changed(report, path, *value):
    other = copy.deepcopy(report)
    at = other
    for key in path[:-1]:
        at = at[key]
    if value:
        at[path[-1]] = value[0]
    else:
        del at[path[-1]]
    return other


failed = False
for name in sys.argv[2:]:
    wrong = why(json.load(open(name)))
    print(name + ": " + ("valid" if not wrong else "NOT VALID: " + "; ".join(wrong[:8])))
    failed |= bool(wrong)
for name in sys.argv[2:4]:
    report, tried = json.load(open(name)), 0
    for path, required in places({"$ref": "#/$defs/report"}, report):
        if required and validator.is_valid(changed(report, path)):
            print("valid without", path)
            failed = True
        if validator.is_valid(changed(report, path, [[]])):
            print("valid with a list as", path)
            failed = True
        tried += 1 + required
    print(f"{name}: " + ("every change is refused" if tried > 150 and not failed else f"{tried} changes were tried"))
sys.exit(failed)
