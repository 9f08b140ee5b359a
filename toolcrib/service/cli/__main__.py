"""`python -m toolcrib.service.cli` is `toolcrib`."""

from __future__ import annotations

from toolcrib.service.cli import main

if __name__ == "__main__":
    main()
