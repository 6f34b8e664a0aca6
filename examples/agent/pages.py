"""Tools that look at the pages of the manual."""

from pathlib import Path

from harness_core import inject

PAGES = Path(__file__).parent / "manual"


@inject("tools")
def apply(ctx):
    """Register the tools."""

    @ctx.tools.register(parallel=True)
    def list_pages() -> list[str]:
        """List the pages of the manual."""
        return sorted(page.name for page in PAGES.glob("*.md"))

    @ctx.tools.register(parallel=True)
    def read_page(name: str) -> str:
        """Read a page of the manual.

        Args:
            name: As list_pages gives it.
        """
        page = PAGES / Path(name).name
        return page.read_text(encoding="utf-8") if page.is_file() else f"there is no page {name}"
