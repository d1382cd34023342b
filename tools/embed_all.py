#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# embed_all.py OUT.c INCLUDE TYPE NAME FOLDER FILE...: JSON documents, without their white space, as
# the array NAME of TYPE {name, text, length}, whose names are relative to FOLDER; ended by a row
# whose name is NULL.

import json
import os
import sys

target, include, kind, name, folder = sys.argv[1:6]
rows = []
with open(target, "w", encoding="ascii") as f:
    f.write(f'#include "{include}"\n\n')
    for number, source in enumerate(sys.argv[6:]):
        with open(source, encoding="utf-8") as s:
            text = json.dumps(json.load(s), ensure_ascii=False, separators=(",", ":"))
        data = text.encode("utf-8")
        f.write(f"static const char text_{number}[] = {{\n")
        for i in range(0, len(data), 16):
            f.write(" ".join(f"0x{b:02x}," for b in data[i : i + 16]) + "\n")
        f.write("};\n")
        rows.append(f'    {{"{os.path.relpath(source, folder)}", text_{number}, sizeof text_{number}}},\n')
    f.write(f"\nconst struct {kind} {name}[] = {{\n" + "".join(rows) + "    {0},\n};\n")
