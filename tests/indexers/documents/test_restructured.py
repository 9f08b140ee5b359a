"""What reStructuredText says is kept, whoever knows its directives; and no file is read for it."""

from __future__ import annotations

import pytest
from docutils.parsers.rst import directives, roles

from toolcrib.errors import SourceError
from toolcrib.indexers.documents.loading import load


def rst(text):
    return load(text.encode(), "a.rst", "rst").text


def test_restructured_text_keeps_headings_lists_tables_and_code():
    text = rst(
        "Title\n=====\n\nPart\n----\n\n* one\n\n.. code-block:: python\n\n   # no heading\n\n"
        "== ==\na  b\n== ==\n1  2\n== ==\n",
    )
    for piece in ("# Title\n", "## Part\n", "* one\n", "```\n# no heading\n```", "| 1 | 2 |"):
        assert piece in text


def test_what_only_sphinx_knows_keeps_its_words(capfd):
    text = rst(
        ".. toctree::\n   :maxdepth: 2\n\n   intro\n\n"
        ".. py:function:: get_user(id)\n   :noindex:\n\n   Gives the *user*.\n\n"
        ".. tab-set::\n\n   .. tab-item:: Linux\n\n      Use the archive.\n\n"
        ".. code-block:: sh\n   :caption: x\n   :emphasize-lines: 1\n\n   make all\n\n"
        "See :ref:`the guide <guide>`, :func:`~lib.get_user` and |release|, or `nowhere`_.\n",
    )
    assert "intro" not in text
    assert "get\\_user" not in text
    for piece in (
        "get_user(id)\n\nGives the *user*.",
        "Linux\n\nUse the archive.",
        "```\nmake all\n```",
        "See the guide, lib.get_user and |release|, or `nowhere`_.",
    ):
        assert piece in text
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    "text",
    [
        "==== ===\nbad  table words\n====\n",
        ".. code-block:: sh\n   :number-lines: many\n\n   table words\n",
        "Title\n=====\n\n* item\n\n  words\n  =====\n",
        "Too short\n==\n\nwords\n",
    ],
)
def test_what_is_wrong_in_restructured_text_is_not_lost(text):
    assert "words" in rst(text)


def test_restructured_text_reads_no_other_file(tmp_path):
    (tmp_path / "secret.txt").write_text("the secret", encoding="utf-8")
    (tmp_path / "secret.svg").write_text("<svg><text>the secret</text></svg>", encoding="utf-8")
    text = rst(
        f"Words.\n\n.. include:: {tmp_path}/secret.txt\n\n"
        f".. literalinclude:: {tmp_path}/secret.txt\n\n"
        f".. csv-table::\n   :file: {tmp_path}/secret.txt\n\n"
        f".. image:: {tmp_path}/secret.svg\n   :loading: embed\n   :alt: A picture\n\n"
        ".. raw:: html\n\n   <b>the secret</b>\n",
    )
    assert "Words." in text
    assert "A picture" in text
    assert "the secret" not in text


def test_docutils_knows_no_more_afterwards_than_before():
    found = directives.directive, roles.role
    rst(".. no-such-directive:: words\n\n:no-such-role:`words`\n")
    assert (directives.directive, roles.role) == found


def test_restructured_text_that_docutils_fails_on_is_refused(monkeypatch):
    import docutils.core

    def fail(*_, **__):
        raise RuntimeError("broken\ninside")

    monkeypatch.setattr(docutils.core, "publish_doctree", fail)
    with pytest.raises(SourceError, match="cannot be read as reStructuredText: RuntimeError: brok"):
        rst("Words.")
