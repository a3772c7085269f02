"""Values of Feast as JSON, so that bags can be read, and found by indexes, without Feast.

Feast's own stores return a value in the type that it was written in, whatever type its field has now. JSON alone tells
most types. A row records the types of its other values, by the names that protobuf has for them.
"""

import base64
import binascii
import json
import math
from typing import Any, Dict, Optional

from feast.protos.feast.types.Value_pb2 import Value
from feast.value_type import ValueType
from google.protobuf.message import DecodeError

_INTEGERS = {"int32_val", "int64_val", "unix_timestamp_val"}
_FLOATS = {"double_val", "float_val"}
_PLAIN = _INTEGERS | _FLOATS | {"string_val", "bool_val", "bytes_val"}
# Types that JSON represents directly.
_NATURAL = _PLAIN - {"unix_timestamp_val", "bytes_val"}
_NOT_FINITE = {"nan", "inf", "-inf"}
# Feast writes them as bytes.
_BYTES = {ValueType.PDF_BYTES, ValueType.IMAGE_BYTES}


def to_json(value: Value) -> Any:
    """A scalar or a list of scalars as itself, bytes in Base64; anything else as Base64 of its protobuf."""
    name = value.WhichOneof("val")
    if name is None or name == "null_val":
        return None
    if name in _PLAIN:
        return _scalar_to_json(getattr(value, name))
    if _of_list(name) in _PLAIN:
        return [_scalar_to_json(one) for one in getattr(value, name).val]
    return base64.b64encode(value.SerializeToString()).decode()


def types_of(values: Dict[str, Value]) -> Dict[str, str]:
    """The types of the values whose JSON does not tell them."""
    named = ((name, value.WhichOneof("val"), to_json(value)) for name, value in values.items())
    return {name: kind for name, kind, shown in named if shown is not None and not _tells(shown, kind)}


def from_json(read: Any, recorded: Optional[str], field: ValueType, by_feast: bool = True) -> Value:
    """The value of a field. Feast recorded its type, or JSON shows it. A value of another program has the field's
    type, if it has its form."""
    if read is None:
        return Value()
    wanted = _attribute(field)
    if recorded:
        candidates = [recorded]
    elif by_feast and not _is_written_as(read, _of_list(wanted) or wanted):
        candidates = []
    else:
        candidates = [wanted]
    for name in [*candidates, _natural(read)]:
        try:
            return _value(read, name)
        except (TypeError, ValueError, OverflowError, AttributeError, binascii.Error, DecodeError):
            continue
    return Value(string_val=read if isinstance(read, str) else json.dumps(read))


def _attribute(kind: ValueType) -> str:
    return "bytes_val" if kind in _BYTES else f"{kind.name.lower()}_val"


def _of_list(name: str) -> Optional[str]:
    """The type of the elements, if this is a type of lists."""
    return name.replace("_list_val", "_val") if name.endswith("_list_val") else None


def _tells(shown: Any, kind: str) -> bool:
    """Whether the JSON of a value tells its type, or one that the same values have."""
    if isinstance(shown, list):
        return all(_tells(one, _of_list(kind) or "") for one in shown) and (_of_list(kind) or "") in _NATURAL
    return kind in _NATURAL and not (kind in _FLOATS and isinstance(shown, str))


def _is_written_as(read: Any, scalar: str) -> bool:
    """Whether Feast may have written this of a type. It writes floats with a point."""
    has_integers = _natural(read) in ("int64_val", "int64_list_val")
    return scalar in _NATURAL and not (scalar in _FLOATS and has_integers)


def _natural(read: Any) -> str:
    """The type of a JSON value alone."""
    if isinstance(read, list):
        kinds = {_natural(one) for one in read}
        if kinds == {"int64_val", "double_val"}:
            return "double_list_val"
        return (kinds.pop() if len(kinds) == 1 else "string_val").replace("_val", "_list_val")
    if isinstance(read, bool):
        return "bool_val"
    if isinstance(read, int):
        return "int64_val"
    return "double_val" if isinstance(read, float) else "string_val"


def _value(read: Any, name: str) -> Value:
    """A value of exactly this type. Fails if the JSON has another form."""
    value = Value()
    if name in _PLAIN:
        setattr(value, name, _scalar_from_json(read, name))
    elif (element := _of_list(name)) in _PLAIN:
        if not isinstance(read, list):
            raise TypeError(f"no list: {read!r}")
        # An empty list is a value, too.
        getattr(value, name).SetInParent()
        getattr(value, name).val.extend(_scalar_from_json(one, element) for one in read)
    else:
        value.ParseFromString(base64.b64decode(read, validate=True))
        if value.WhichOneof("val") != name:
            raise ValueError(f"no {name}")
    return value


def _scalar_to_json(one: Any) -> Any:
    if isinstance(one, bytes):
        return base64.b64encode(one).decode()
    # JSON has no NaN and no infinities.
    return str(one) if isinstance(one, float) and not math.isfinite(one) else one


def _scalar_from_json(read: Any, name: str) -> Any:
    if name == "bytes_val":
        return base64.b64decode(read, validate=True)
    if name in _FLOATS:
        if read in _NOT_FINITE or type(read) in (int, float):
            return float(read)
    elif type(read) is {"string_val": str, "bool_val": bool}.get(name, int):
        return read
    raise TypeError(f"no {name}: {read!r}")


# Which value type of Liststore has the elements of a list. JSON, unlike a double, has NaN and infinities as strings.
_LIST_TYPES = {
    ValueType.STRING_LIST: "string",
    ValueType.BYTES_LIST: "bytes",
    ValueType.BOOL_LIST: "bool",
    ValueType.INT32_LIST: "int64",
    ValueType.INT64_LIST: "int64",
    ValueType.UNIX_TIMESTAMP_LIST: "int64",
    ValueType.FLOAT_LIST: "json",
    ValueType.DOUBLE_LIST: "json",
}


def list_type(kind: ValueType) -> Optional[str]:
    """The value type of a list feature for a field of this type; none if it has no scalars as elements."""
    return _LIST_TYPES.get(kind)
