"""Values of Feast as JSON, so that bags can be read, and found by indexes, without Feast."""

import base64
import math
from typing import Any

from feast.protos.feast.types.Value_pb2 import Value
from feast.type_map import PROTO_VALUE_TO_VALUE_TYPE_MAP
from feast.value_type import ValueType

_ATTRIBUTES = {kind: name for name, kind in PROTO_VALUE_TO_VALUE_TYPE_MAP.items()}
_NUMBERS = {"int32_val", "int64_val", "unix_timestamp_val", "double_val", "float_val"}
_PLAIN = _NUMBERS | {"string_val", "bool_val", "bytes_val"}
_LISTS = {name.replace("_val", "_list_val") for name in _PLAIN}


def to_json(value: Value) -> Any:
    """A scalar or a list of scalars as itself, bytes in Base64; anything else as Base64 of its protobuf."""
    name = value.WhichOneof("val")
    if name is None:
        return None
    if name in _PLAIN:
        return _scalar_to_json(getattr(value, name))
    if name in _LISTS:
        return [_scalar_to_json(one) for one in getattr(value, name).val]
    return base64.b64encode(value.SerializeToString()).decode()


def from_json(read: Any, kind: ValueType) -> Value:
    """What `to_json` wrote of a value of this type."""
    value = Value()
    if read is None:
        return value
    name = _ATTRIBUTES.get(kind, "")
    if name in _PLAIN:
        setattr(value, name, _scalar_from_json(read, name))
    elif name in _LISTS:
        # An empty list is a value, too.
        getattr(value, name).SetInParent()
        getattr(value, name).val.extend(_scalar_from_json(one, name.replace("_list", "")) for one in read)
    else:
        value.ParseFromString(base64.b64decode(read))
    return value


def _scalar_to_json(one: Any) -> Any:
    if isinstance(one, bytes):
        return base64.b64encode(one).decode()
    # JSON has no NaN and no infinities.
    return str(one) if isinstance(one, float) and not math.isfinite(one) else one


def _scalar_from_json(read: Any, name: str) -> Any:
    if name == "bytes_val":
        return base64.b64decode(read)
    if name in ("double_val", "float_val"):
        return float(read)
    return read


# Which value type of Liststore has the elements of a list.
_LIST_TYPES = {
    ValueType.STRING_LIST: "string",
    ValueType.BYTES_LIST: "bytes",
    ValueType.BOOL_LIST: "bool",
    ValueType.INT32_LIST: "int64",
    ValueType.INT64_LIST: "int64",
    ValueType.UNIX_TIMESTAMP_LIST: "int64",
    ValueType.FLOAT_LIST: "double",
    ValueType.DOUBLE_LIST: "double",
}


def list_type(kind: ValueType) -> str:
    """The value type of a list feature for a field of this type."""
    if kind not in _LIST_TYPES:
        raise ValueError(f"a field of type {kind.name} is no list of scalars: leave out its tag liststore=list")
    return _LIST_TYPES[kind]
