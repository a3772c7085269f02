"""What schemathesis leaves out in scripts/fuzz-api."""

import schemathesis


@schemathesis.hook
def filter_case(context, case):
    # It treats an undocumented header as a mistake of the caller. In HTTP any intermediary may add headers (RFC 9110,
    # section 5.1), and unknown ones must be ignored.
    return not any("schemathesis-unknown-property" in name.lower() for name in case.headers or {})
