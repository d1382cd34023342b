#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# embed_text.py IN OUT.c HEADER NAME: a text as it is, as the C array NAME and its length NAME_len,
# which HEADER declares.

import sys

source, target, header, name = sys.argv[1:]
with open(source, "rb") as f:
    data = f.read()
with open(target, "w", encoding="ascii") as f:
    f.write(f'#include "{header}"\n\n')
    f.write(f"const char {name}[] = {{\n")
    for i in range(0, len(data), 16):
        f.write(" ".join(f"0x{b:02x}," for b in data[i : i + 16]) + "\n")
    f.write(f"}};\nconst size_t {name}_len = sizeof {name};\n")
