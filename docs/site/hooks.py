"""Hooks of MkDocs: pages that are made of the code, links that lead out of docs/, and the link to
the glossary.
"""

import posixpath
import re
import sys
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

sys.path.insert(0, str(Path(__file__).parent))

from reference import pages

_OUT = re.compile(r"\[([^\]]+)\]\(((?:\.\./)+(?:deploy|tests|benchmarks|gateway|spool|exporters|[A-Z]+\.md)[^)]*)\)")


GLOSSARY = "glossary.md"

SHIM = "https://unpkg.com/iframe-worker/shim"
"""What the plugin `offline` would load from elsewhere."""


def on_files(files: Files, config: MkDocsConfig, **_: Any) -> Files:
    for path, content in pages().items():
        files.append(File.generated(config, path, content=content))
    return files


def on_page_markdown(markdown: str, *, page: Page, **_: Any) -> str:
    """A link to a file of the repository becomes its path, since the site does not hold it. Each
    page ends with a link to the glossary.
    """
    inside = _OUT.sub(lambda link: f"{link[1]} (`{link[2].replace('../', '')}` in the repository)", markdown)
    return inside if page.file.src_uri == GLOSSARY else f"{inside}\n\n{glossary_link(page.file.src_uri)}\n"


def glossary_link(page: str) -> str:
    """*page*: path below docs/."""
    return f"[Glossary]({posixpath.relpath(GLOSSARY, posixpath.dirname(page) or '.')}): the words of these pages."


def on_post_page(output: str, *, page: Page, **_: Any) -> str:
    return with_own_shim(output, page.url.count("/"))


def on_post_template(output_content: str, **_: Any) -> str:
    return with_own_shim(output_content, 0)


def with_own_shim(html: str, depth: int) -> str:
    """The page with the copy in docs/assets; *depth*: folders above it."""
    return html.replace(SHIM, f"{'../' * depth}assets/iframe-worker.js")
