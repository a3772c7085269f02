"""The commands that a document tells its readers to run, one a line, as they stand there.

usage: told_commands.py FILE          those of its `sh` blocks, and of code spans that begin with `kubectl -n`
       told_commands.py FILE --yaml [NUMBER]
                                      its first `yaml` block, or the one with this number; --sql likewise

A line that goes on is put together, with one space where it was broken.
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
