"""Check the Markdown files: relative links lead somewhere, and Python blocks compile.

Run from anywhere: `python docs/check.py`. Prints one line a fault and exits with 1 if there is any. Links to other
sites are not followed.
"""

import doctest
import re
import sys
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from urllib.parse import unquote, urlsplit

from markdown_it import MarkdownIt
from markdown_it.token import Token

ROOT = Path(__file__).resolve().parent.parent
PAGES = ("*.md", "docs/**/*.md", "src/**/*.md")

markdown = MarkdownIt("commonmark").enable("table")


def check(page: Path, root: Path) -> Iterator[str]:
    """The faults of one page, each as `file:line: what is wrong`."""
    for token in markdown.parse(page.read_text(encoding="utf-8")):
        where = f"{page.relative_to(root)}:{token.map[0] + 1 if token.map else 1}"
        if token.type == "fence" and token.info.split()[:1] in (["python"], ["py"]):
            yield from (f"{where}: Python block does not compile: {fault}" for fault in syntax_faults(token.content))
        for target in link_targets(token):
            yield from (f"{where}: {fault}" for fault in link_faults(target, page, root))


def syntax_faults(block: str) -> Iterator[str]:
    """Why a block of Python doesn't compile; a block with `>>>` prompts counts by its prompted lines."""
    try:
        sources = [block]
        if re.search(r"^\s*>>> ", block, re.MULTILINE):
            sources = [example.source for example in doctest.DocTestParser().get_examples(block)]
        for source in sources:
            compile(source, "block", "exec")
    except (SyntaxError, ValueError) as error:
        yield str(error)


def link_targets(token: Token) -> Iterator[str]:
    """What the links and images inside a token point to, in Markdown and in HTML."""
    for part in [token, *(token.children or [])]:
        if part.type in ("link_open", "image"):
            yield str(part.attrs.get("href") or part.attrs.get("src") or "")
        elif part.type in ("html_block", "html_inline"):
            yield from re.findall(r"\b(?:href|src)=[\"']([^\"']+)[\"']", part.content)


def link_faults(target: str, page: Path, root: Path) -> Iterator[str]:
    """Why a relative link leads nowhere: no such file, outside of the repository, or no such heading."""
    parts = urlsplit(target)
    if parts.scheme or parts.netloc:
        return
    if parts.path.startswith("/"):
        yield f"link to {target}: should be relative"
        return
    file = (page.parent / unquote(parts.path)).resolve() if parts.path else page
    if not file.is_relative_to(root):
        yield f"link to {target}: leads out of the repository"
    elif not file.exists():
        yield f"link to {target}: no such file"
    elif parts.fragment and file.suffix == ".md" and unquote(parts.fragment) not in anchors(file):
        yield f"link to {target}: no such heading"


def anchors(page: Path) -> set[str]:
    """The anchors that a code host gives a page's headings: lower case, hyphens for spaces, repeats numbered."""
    slugs: Counter[str] = Counter()
    found = set()
    for opening, inline in pairwise(markdown.parse(page.read_text(encoding="utf-8"))):
        if opening.type == "heading_open":
            text = "".join(part.content for part in inline.children or [] if part.type in ("text", "code_inline"))
            slug = re.sub(r"[^\w\- ]", "", text.strip().lower()).replace(" ", "-")
            found.add(f"{slug}-{slugs[slug]}" if slugs[slug] else slug)
            slugs[slug] += 1
    return found


def main(root: Path = ROOT) -> int:
    """Check every page under the root; the exit status."""
    pages = sorted({page for pattern in PAGES for page in root.glob(pattern)})
    faults = [fault for page in pages for fault in check(page, root)]
    print(*faults, f"{len(pages)} pages, {len(faults)} faults", sep="\n")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
