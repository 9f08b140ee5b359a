"""Schemas of tools' parameters, right ones and others."""

from __future__ import annotations

from hypothesis import strategies as st

_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["type", "enum", "anyOf", "items", "properties", "required", "$ref", "x"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)

any_schema = st.dictionaries(
    st.sampled_from(["properties", "required", "type", "anyOf", "$ref", "$defs"]), _json
)
