"""Who has no token stays outside; a tenant sees its own queries, and others as counts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Page, expect

from millrace.server.tokens import Tokens, token_file
from millrace.testing.browsing import Market, served

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def tokens(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """A server that asks for tokens; its address is under `address`."""
    root: Path = tmp_path_factory.mktemp("tenants") / "root"
    root.mkdir()
    made = Tokens(token_file(root))
    found = {
        "operator": made.add("admin", "")[0],
        "acme": made.add("writer", "acme")[0],
        "bolt": made.add("reader", "bolt")[0],
    }
    with served(root, demo=False) as address, Market(address, token=found["operator"]):
        asked = {"sql": "SELECT symbol FROM trades WHERE price > 90", "name": "of_acme"}
        headers = {"authorization": f"Bearer {found['acme']}"}
        httpx.post(
            f"{address}/v1/queries", json=asked, headers=headers, timeout=60
        ).raise_for_status()
        yield {**found, "address": address, "root": str(root)}


def log_in(page: Page, tokens: dict[str, str], who: str, place: str = "/console/queries") -> None:
    page.goto(tokens["address"] + place)
    expect(page).to_have_url(re.compile("/console/login"))
    page.get_by_label("Token").fill(tokens[who])
    page.get_by_role("button", name="Log in").click()
    expect(page).to_have_url(re.compile(place))


def test_a_tenant_sees_its_own_queries_and_others_as_counts(
    page: Page, tokens: dict[str, str]
) -> None:
    log_in(page, tokens, "acme")
    expect(page.locator("tbody tr")).to_have_count(1)
    expect(page.locator("tbody tr")).to_contain_text("of_acme")

    page.goto(f"{tokens['address']}/console/plan")
    expect(page.locator(".mr-node.feed")).to_have_text(re.compile("of_acme"))
    expect(page.locator(".mr-node.others").first).to_be_visible()
    expect(page.get_by_text("Only an administrator may change them.")).to_be_visible()
    page.goto(f"{tokens['address']}/console/sysstream?graph=top")
    expect(page.locator(".mr-top [role=status]")).to_have_text("live")
    page.get_by_role("button", name="Table").click()
    expect(page.locator("table[aria-label=answer] tbody tr").first).to_contain_text("of_acme")
    assert "per_symbol" not in page.content()
    page.goto(f"{tokens['address']}/console/query/per_symbol")
    expect(page.get_by_role("alert")).to_contain_text('query "per_symbol" does not exist')
    page.get_by_role("button", name="Log out").click()
    expect(page).to_have_url(re.compile("/console/login"))


def test_a_reader_is_offered_nothing_that_changes(page: Page, tokens: dict[str, str]) -> None:
    log_in(page, tokens, "bolt")

    expect(page.get_by_text("No queries yet")).to_be_visible()
    expect(page.get_by_role("link", name="New query")).to_have_count(0)


def test_a_tenant_may_not_listen_to_others_with_a_standing_query(tokens: dict[str, str]) -> None:
    asked = {"sql": "SELECT name FROM sysstream", "name": "curious"}
    headers = {"authorization": f"Bearer {tokens['acme']}"}

    answer = httpx.post(f"{tokens['address']}/v1/queries", json=asked, headers=headers)

    assert answer.status_code == 403
    assert "is for the operator" in answer.json()["error"]["message"]


def test_the_operator_sees_all(page: Page, tokens: dict[str, str]) -> None:
    log_in(page, tokens, "operator")

    expect(page.locator("tbody")).to_contain_text("acme/of_acme")
    page.get_by_role("link", name="acme/of_acme").click()
    expect(page.locator("h1")).to_have_text("acme/of_acme")


def test_a_page_that_is_open_does_not_outlive_its_token(page: Page, tokens: dict[str, str]) -> None:
    made = Tokens(token_file(Path(tokens["root"])))
    text, token = made.add("reader", "bolt")
    log_in(page, {**tokens, "short": text}, "short", "/console/")
    expect(page.locator(".mr-top [role=status]")).to_have_text("live")

    made.remove(token.id)

    expect(page.get_by_role("alert")).to_contain_text("the token is not known any more")
    expect(page.locator(".mr-top [role=status]")).to_have_text("not answering")


def test_of_several_gateways_one_has_the_console_and_the_others_lead_there(
    page: Page, tmp_path: Path
) -> None:
    with served(tmp_path / "root", gateways=2) as address:
        for _ in range(4):  # whichever of them answers
            page.goto(f"{address}/console/queries")
            expect(page.locator(".mr-top [role=status]")).to_have_text("live")
            assert not page.url.startswith(address)
