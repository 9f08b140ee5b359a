"""Schemas of tools' parameters, right ones and others."""

from __future__ import annotations

from hypothesis import strategies as st

WORDS = (
    *("type", "properties", "items", "required", "anyOf", "oneOf", "allOf", "enum", "const"),
    *("$ref", "$defs", "$recursiveRef", "pattern", "minimum", "exclusiveMinimum", "maxItems"),
    *("additionalItems", "prefixItems", "patternProperties", "dependentRequired", "not", "title"),
    *("description", "nullable", "additionalProperties", "examples", "dict", "array", "object"),
)

_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.sampled_from([*WORDS, "#", "#/$defs/a", "("]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from([*WORDS, "a", "$b"]), inner, max_size=5)
    ),
    max_leaves=20,
)

any_schema = st.dictionaries(st.sampled_from(WORDS), _values, max_size=6)
