#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# embed.py IN.json OUT.c NAME: a JSON document, without its white space, as the C string NAME and
# its length NAME_len.

import json
import sys

source, target, name = sys.argv[1:]
with open(source, encoding="utf-8") as f:
    text = json.dumps(json.load(f), ensure_ascii=False, separators=(",", ":"))
data = text.encode("utf-8")
with open(target, "w", encoding="ascii") as f:
    f.write('#include "api/api_internal.h"\n\n')
    f.write(f"const char {name}[] = {{\n")
    for i in range(0, len(data), 16):
        f.write(" ".join(f"0x{b:02x}," for b in data[i : i + 16]) + "\n")
    f.write(f"}};\nconst size_t {name}_len = sizeof {name};\n")
