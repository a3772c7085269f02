"""What schemathesis leaves out in scripts/fuzz-api."""

import schemathesis


@schemathesis.hook
def filter_case(context, case):
    # It takes a header that the document does not name for a mistake of the caller. In HTTP anybody
    # on the way may add some (RFC 9110, section 5.1), and what is not known must be ignored.
    return not any("schemathesis-unknown-property" in name.lower() for name in case.headers or {})
