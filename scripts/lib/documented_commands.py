"""Prints the commands of a document, one a line and unchanged.

usage: documented_commands.py FILE    the commands of its `sh` blocks, and of code spans that begin with `kubectl -n`
       documented_commands.py FILE --yaml [NUMBER]
                                      its first `yaml` block, or the one with this number; --sql and --sh
                                      likewise

A command over several lines is joined, with one space at each break.
"""

import pathlib
import re
import sys
import textwrap

text = pathlib.Path(sys.argv[1]).read_text()
blocks = re.findall(r"^( *)```(\w*)\n(.*?)^\1```", text, re.DOTALL | re.MULTILINE)
if len(sys.argv) > 2:
    found = [textwrap.dedent(body) for _, kind, body in blocks if kind == sys.argv[2][2:]]
    print(found[int(sys.argv[3]) - 1 if len(sys.argv) > 3 else 0], end="")
    sys.exit()
lines = []
for _, kind, body in blocks:
    if kind == "sh":
        lines += re.sub(r" *\\\n *", " ", textwrap.dedent(body)).splitlines()
prose = re.sub(r"^( *)```.*?^\1```", "", text, flags=re.DOTALL | re.MULTILINE)
lines += [" ".join(span.split()) for span in re.findall(r"`(kubectl -n [^`]*)`", prose)]
print(*dict.fromkeys(line for line in lines if line), sep="\n")
