# SPDX-License-Identifier: Apache-2.0
"""Checks Kubernetes manifests against the models of Debian's
python3-kubernetes: every field must be known, of its type, and the required
ones must be there. Prints what is wrong, a line each.

    kubernetes_check.py FILE...
"""
import re
import sys

import yaml
from kubernetes import client

bad = 0


def wrong(where, what):
    global bad
    bad = 1
    print(f"{where}: {what}")


def check(value, kind, where):
    """kind: as in openapi_types: str, int, bool, object, V1Pod, list[…], dict(str, …)."""
    if kind.startswith("list["):
        if not isinstance(value, list):
            return wrong(where, f"must be a list, not {value!r}")
        for i, item in enumerate(value):
            check(item, kind[5:-1], f"{where}[{i}]")
    elif kind.startswith("dict("):
        if not isinstance(value, dict):
            return wrong(where, f"must be a map, not {value!r}")
        for key, item in value.items():
            check(item, re.match(r"dict\(str, (.*)\)", kind).group(1), f"{where}.{key}")
    elif kind == "object" or kind == "datetime":
        return
    elif kind in ("str", "int", "bool", "float"):
        want = {"str": str, "int": int, "bool": bool, "float": (int, float)}[kind]
        if not isinstance(value, want) or (kind != "bool" and isinstance(value, bool)):
            wrong(where, f"must be {kind}, not {value!r}")
    else:
        model = getattr(client, kind)
        if not isinstance(value, dict):
            return wrong(where, f"must be a map, not {value!r}")
        names = {v: k for k, v in model.attribute_map.items()}
        arguments = {}
        for key, item in value.items():
            if key not in names:
                wrong(where, f"has no field {key}")
                continue
            arguments[names[key]] = item
            check(item, model.openapi_types[names[key]], f"{where}.{key}")
        try:
            model(**arguments)  # required fields, enumerations, patterns
        except ValueError as error:
            wrong(where, str(error))


def main():
    count = 0
    for path in sys.argv[1:]:
        with open(path, encoding="utf-8") as f:
            documents = list(yaml.safe_load_all(f))
        for d in documents:
            name = d.get("kind", "")
            version = d.get("apiVersion", "").split("/")[-1]
            kind = version[:1].upper() + version[1:] + name
            if not name or not hasattr(client, kind):
                wrong(path, f"no such kind: {d.get('apiVersion')} {name}")
                continue
            check(d, kind, name)
            count += 1
    print(f"{count} objects")
    return bad


sys.exit(main())
