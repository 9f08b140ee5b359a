"""Documents of the kinds that nobody writes by hand, as small as they can be."""

from __future__ import annotations

import io
import json
import zipfile
from xml.sax.saxutils import escape

WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
OFFICE = "http://schemas.openxmlformats.org"
TYPES = f"""<Types xmlns="{OFFICE}/package/2006/content-types">
<Default Extension="rels"
 ContentType="application/vnd.openxmlformats-package.relationships+xml"/>
<Override PartName="/word/document.xml" ContentType=
"application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"/>
<Override PartName="/word/styles.xml" ContentType=
"application/vnd.openxmlformats-officedocument.wordprocessingml.styles+xml"/></Types>"""
ROOT = f"""<Relationships xmlns="{OFFICE}/package/2006/relationships"><Relationship Id="r1"
 Type="{OFFICE}/officeDocument/2006/relationships/officeDocument"
 Target="word/document.xml"/></Relationships>"""
BESIDE = f"""<Relationships xmlns="{OFFICE}/package/2006/relationships"><Relationship Id="r1"
 Type="{OFFICE}/officeDocument/2006/relationships/styles" Target="styles.xml"/></Relationships>"""
STYLES = f'<w:styles xmlns:w="{WORD}">' + "".join(
    f'<w:style w:type="paragraph" w:styleId="Heading{n}"><w:name w:val="heading {n}"/></w:style>'
    for n in (1, 2)
)


def docx(*paragraphs: tuple[str, str], body: str = "", styles: str = "") -> bytes:
    """Make a Word document of (style, text) pairs; the style is "Heading1" or nothing.

    `body` and `styles` are XML that follows.
    """
    shown = "".join(
        f'<w:p><w:pPr><w:pStyle w:val="{style}"/></w:pPr><w:r><w:t>{escape(text)}</w:t></w:r></w:p>'
        for style, text in paragraphs
    )
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("[Content_Types].xml", TYPES)
        archive.writestr("_rels/.rels", ROOT)
        archive.writestr("word/_rels/document.xml.rels", BESIDE)
        archive.writestr("word/styles.xml", f"{STYLES}{styles}</w:styles>")
        archive.writestr(
            "word/document.xml",
            f'<w:document xmlns:w="{WORD}" xmlns:m="{OFFICE}/officeDocument/2006/math">'
            f"<w:body>{shown}{body}</w:body></w:document>",
        )
    return packed.getvalue()


def pdf(*lines: str, stream: bytes = b"", beside: bytes = b"") -> bytes:
    """Make a PDF of one page with these lines; without any, it is a page as a scanner leaves it.

    A line that is a form feed begins another page. Or the page is this `stream`, with what is said
    `beside` it.
    """
    pages = [text.split("\n") for text in "\n".join(lines).split("\f")]
    streams = [stream] if stream else [_shown(page) for page in pages]
    kids = b" ".join(b"%d 0 R" % number for number in range(4, 4 + 2 * len(streams), 2))
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [%s] /Count %d >>" % (kids, len(streams)),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    for content in streams:
        objects += [
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents %d 0 R "
            b"/Resources << /Font << /F1 3 0 R >> >> >>" % (len(objects) + 2),
            b"<< /Length %d %s >>\nstream\n%s\nendstream" % (len(content), beside, content),
        ]
    file = b"%PDF-1.4\n"
    places: list[int] = []
    for number, content in enumerate(objects, start=1):
        places.append(len(file))
        file += b"%d 0 obj\n%s\nendobj\n" % (number, content)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    size = len(objects) + 1
    return (
        file
        + b"xref\n0 %d\n0000000000 65535 f \n%strailer\n<< /Size %d /Root 1 0 R >>\n"
        % (size, table, size)
        + b"startxref\n%d\n%%%%EOF\n" % len(file)
    )


def _shown(lines: list[str]) -> bytes:
    shown = " ".join(f"({line}) Tj T*" for line in lines if line)
    return f"BT /F1 12 Tf 14 TL 72 720 Td {shown} ET".encode()


def notebook(*cells: tuple[str, str], language: str = "python") -> bytes:
    """Make a notebook of (kind of cell, source) pairs, each code cell with an output."""
    made = [
        {
            "cell_type": kind,
            "metadata": {},
            "source": source.splitlines(keepends=True),
            "outputs": [{"output_type": "stream", "text": ["shown below"]}],
        }
        for kind, source in cells
    ]
    metadata = {"language_info": {"name": language}}
    return json.dumps({"nbformat": 4, "metadata": metadata, "cells": made}).encode()
