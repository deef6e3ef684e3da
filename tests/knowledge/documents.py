"""Documents made here: PDFs whose pages say what they are told, and an RA-H database."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from shepherd._native.store import Connection

__all__ = ["pdf", "ra_h"]


def pdf(pages: Sequence[Sequence[str]], title: str = "") -> bytes:
    """A PDF with one page for each list of lines, in Helvetica; ASCII without brackets."""
    objects = ["<< /Type /Catalog /Pages 2 0 R >>", ""]
    objects.append("<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>")
    objects.append(f"<< /Title ({title}) >>")
    kids = []
    for lines in pages:
        shown = " ".join(f"({line}) Tj 0 -14 Td" for line in lines)
        content = f"BT /F1 11 Tf 50 780 Td {shown} ET"
        objects.append(f"<< /Length {len(content)} >>\nstream\n{content}\nendstream")
        kids.append(len(objects) + 1)
        objects.append(
            "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842]"
            f" /Resources << /Font << /F1 3 0 R >> >> /Contents {len(objects)} 0 R >>"
        )
    objects[1] = f"<< /Type /Pages /Count {len(kids)} /Kids [{' '.join(f'{kid} 0 R' for kid in kids)}] >>"
    written = b"%PDF-1.4\n"
    places = []
    for number, body in enumerate(objects, 1):
        places.append(len(written))
        written += f"{number} 0 obj\n{body}\nendobj\n".encode("latin-1")
    table = "".join(f"{place:010} 00000 n \n" for place in places)
    written += f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{table}".encode()
    end = f"trailer << /Size {len(objects) + 1} /Root 1 0 R /Info 4 0 R >>\nstartxref\n{{}}\n%%EOF\n"
    return written + end.format(written.rindex(b"xref\n0 ")).encode()


def ra_h(path: Path, *, notes_column: str = "notes") -> None:
    """An RA-H database of three nodes, edges of both generations, a loop and one into nowhere."""
    with Connection(path) as database:
        database.script(
            f"""
            CREATE TABLE nodes(id INTEGER PRIMARY KEY, title TEXT, {notes_column} TEXT, description TEXT,
                chunk TEXT, chunk_status TEXT, link TEXT, type TEXT, event_date TEXT, metadata TEXT,
                created_at TEXT, updated_at TEXT);
            CREATE TABLE edges(id INTEGER PRIMARY KEY, from_node_id INTEGER, to_node_id INTEGER, source TEXT,
                created_at TEXT, context TEXT, explanation TEXT);
            CREATE TABLE dimensions(name TEXT PRIMARY KEY, description TEXT, icon TEXT, is_priority INTEGER);
            CREATE TABLE node_dimensions(node_id INTEGER, dimension TEXT);
            INSERT INTO dimensions VALUES('research', 'what is read', 'R', 1), ('ai', NULL, NULL, 0);
            """
        )
        at = "2025-12-09T10:00:00.000Z"
        rows = (
            (1573, "building ra-h", "my notes", "a system", None, None, "{bad json", at, at),
            (4436, "Continual learning", None, None, "The text of the talk. " * 80, "talk", None, at, at),
            (7, "an old memory", "said once", None, None, "memory", '{"n": 1}', at, "2025-12-10 11:00:00"),
        )
        for node_id, title, notes, description, chunk, kind, metadata, created, updated in rows:
            database.execute(
                f"INSERT INTO nodes(id, title, {notes_column}, description, chunk, type, metadata, link,"
                " event_date, created_at, updated_at) VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    node_id,
                    title,
                    notes,
                    description,
                    chunk,
                    kind,
                    metadata,
                    "https://example.com",
                    "2024-05-01T00:00:00Z",
                    created,
                    updated,
                ),
            )
        told = json.dumps(
            {"type": "extends", "explanation": "builds on it", "confidence": 0.7, "created_via": "mcp"}
        )
        for edge in (
            (1573, 4436, "user", told, None),
            (4436, 7, "ai_similarity", None, "alike"),
            (7, 7, "user", told, None),
            (7, 999, "user", told, None),
        ):
            database.execute(
                "INSERT INTO edges(from_node_id, to_node_id, source, context, explanation, created_at)"
                f" VALUES(?, ?, ?, ?, ?, '{at}')",
                edge,
            )
        database.execute("INSERT INTO node_dimensions VALUES(1573, 'ai'), (1573, 'research')")
