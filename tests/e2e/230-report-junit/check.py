"""check.py FILE - is this JUnit XML that CI servers accept? Prints a line a suite, or what is wrong.

The rules are those of two schemas: Ant's (windyroad/JUnit-Schema, JUnit.xsd) and that of Jenkins's xunit plugin (junit-10.xsd).
Where they differ the stricter rule is taken. The counts must be those of the cases. SPDX-License-Identifier: Apache-2.0
"""
import re
import sys
import xml.etree.ElementTree as ET

TOKEN = re.compile(r"\S+( \S+)*\Z")          # xs:token, not empty
TIME = re.compile(r"[0-9]+\.[0-9]{3}\Z")      # xs:decimal and SUREFIRE_TIME
COUNT = re.compile(r"[0-9]+\Z")
STAMP = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\Z")
ANY = re.compile(r"", re.S)
SUITE = {"name": TOKEN, "id": COUNT, "package": TOKEN, "hostname": TOKEN, "timestamp": STAMP, "time": TIME, "tests": COUNT,
         "failures": COUNT, "errors": COUNT, "skipped": COUNT}
CASE = {"name": TOKEN, "classname": TOKEN, "time": TIME}
RESULT = {"failure": {"message": ANY, "type": TOKEN}, "error": {"message": ANY, "type": TOKEN}, "skipped": {"message": ANY}}


class Wrong(Exception):
    pass


def attributes(e, rules):
    if set(e.attrib) != set(rules):
        raise Wrong(f"<{e.tag}> has the attributes {sorted(e.attrib)}, not {sorted(rules)}")
    for name, value in e.attrib.items():
        if not rules[name].match(value):
            raise Wrong(f"<{e.tag} {name}=\"{value[:60]}\">: not of the form {rules[name].pattern}")


def check_case(case):
    attributes(case, CASE)
    if len(case) > 1 or (len(case) and case[0].tag not in RESULT):
        raise Wrong(f"a case holds {[c.tag for c in case]}")
    for result in case:
        attributes(result, RESULT[result.tag])
        if len(result):
            raise Wrong(f"<{result.tag}> holds elements")
    return case[0].tag if len(case) else "passed"


def check_suite(suite, number):
    attributes(suite, SUITE)
    tags = [e.tag for e in suite]
    cases = tags.count("testcase")
    if tags != ["properties"] + ["testcase"] * cases + ["system-out", "system-err"]:
        raise Wrong(f"a suite holds {tags}")
    for p in suite[0]:
        attributes(p, {"name": TOKEN, "value": ANY})
    found = [check_case(c) for c in suite[1:1 + cases]]
    for attribute, what in (("tests", None), ("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        n = len(found) if what is None else found.count(what)
        if suite.get(attribute) != str(n):
            raise Wrong(f"{attribute}=\"{suite.get(attribute)}\", counted {n}")
    if suite.get("id") != str(number):
        raise Wrong(f"suite {number} has id {suite.get('id')}")
    total, parts = float(suite.get("time")), sum(float(c.get("time")) for c in suite.iter("testcase"))
    if abs(total - parts) > 0.01 * cases:
        raise Wrong(f"time=\"{total}\", the cases' sum is {parts}")


def check(path):
    root = ET.parse(path).getroot()
    if root.tag != "testsuites" or root.attrib or not len(root):
        raise Wrong(f"the root is <{root.tag}> with {root.attrib} and {len(root)} suites")
    for i, suite in enumerate(root):
        if suite.tag != "testsuite":
            raise Wrong(f"<{suite.tag}> stands among the suites")
        check_suite(suite, i)
    return root


if __name__ == "__main__":
    try:
        for s in check(sys.argv[1]):
            print(f"{s.get('name')[:40]}: {s.get('tests')} tests, {s.get('failures')} failures, {s.get('errors')} errors, "
                  f"{s.get('skipped')} skipped, at {s.get('timestamp')}, {s.get('time')} s")
    except (Wrong, ET.ParseError) as e:
        print(f"not valid: {e}")
        sys.exit(1)
