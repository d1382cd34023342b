#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# embed_files.py OUT.c INCLUDE TYPE NAME FILE...: files as they are, as the array NAME of TYPE
# {name, text, length}, ended by a row whose name is NULL.

import os
import sys

target, include, kind, name = sys.argv[1:5]
rows = []
with open(target, "w", encoding="ascii") as f:
    f.write(f'#include "{include}"\n\n')
    for number, source in enumerate(sys.argv[5:]):
        with open(source, "rb") as s:
            data = s.read()
        f.write(f"static const unsigned char text_{number}[] = {{\n")
        for i in range(0, len(data), 16):
            f.write(" ".join(f"0x{b:02x}," for b in data[i : i + 16]) + "\n")
        f.write("};\n")
        rows.append(f'    {{"{os.path.basename(source)}", text_{number}, sizeof text_{number}}},\n')
    f.write(f"\nconst struct {kind} {name}[] = {{\n" + "".join(rows) + "    {0},\n};\n")
