"""The contract is no test module by name, yet its assertions deserve pytest's messages."""

import pytest

pytest.register_assert_rewrite("tests.encoders.conformance")
