"""What MkDocs does beyond mkdocs.yml: links to files outside docs/, pipes in tables, and Markdown beside the HTML."""
import re
import shutil
from pathlib import Path


def on_page_markdown(markdown, page, config, files):
    # A link such as ../include/ole/loss.h works on GitHub. MkDocs, which checks links, must not take it for a page;
    # tests/check_links.py has checked it.
    markdown = markdown.replace("](../", "](checkout:")
    # In a table GitHub needs `a\|b`, where Python-Markdown would show the backslash.
    return re.sub(r"`[^`\n]*`", lambda code: code[0].replace("\\|", "|"), markdown)


def on_page_content(html, page, config, files):
    return html.replace('href="checkout:', 'href="../../')  # from build/site


def on_post_build(config):
    for page in Path(config["docs_dir"]).glob("*.md"):  # llms.txt links to these
        shutil.copy(page, config["site_dir"])
