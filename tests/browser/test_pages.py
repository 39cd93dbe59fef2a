"""The pages of the console in a real browser, on a real server."""

from __future__ import annotations

import re

import httpx
import pytest
from playwright.sync_api import BrowserContext, Page, expect

pytestmark = pytest.mark.slow

PAGES = {
    "overview": "/console/",
    "plan": "/console/plan",
    "queries": "/console/queries",
    "new query": "/console/queries/new",
    "query": "/console/query/per_symbol",
    "costs": "/console/costs",
    "sysstream": "/console/sysstream",
}
NAMELESS = """() => [...document.querySelectorAll(
    "button, a[href], input, select, textarea, [tabindex='0']")]
  .filter((each) => each.offsetParent !== null && each.tabIndex >= 0)
  .filter((each) => !each.closest("[aria-hidden=true]"))
  .filter((each) => !(each.innerText || "").trim() && !each.getAttribute("aria-label")
    && !each.getAttribute("placeholder") && !(each.labels && each.labels.length) && !each.title)
  .map((each) => each.outerHTML.slice(0, 200))"""
HOSTILE = "<img src=x onerror=alert(1)>'\"</script><script>alert(2)</script>"


def opened(page: Page, address: str) -> None:
    """Go to a page, and wait until it answers: what is done before that is not heard."""
    page.goto(address)
    expect(page.locator(".mr-top [role=status]")).to_have_text("live")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_page_is_live_and_says_what_each_control_is(
    context: BrowserContext, page: Page, address: str, scheme: str
) -> None:
    page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
    for path in PAGES.values():
        opened(page, address + path)
        expect(page.locator("h1")).to_be_visible()
        assert page.evaluate("document.body.classList.contains('body--dark')") == (scheme == "dark")
        assert page.evaluate(NAMELESS) == []


def test_the_root_leads_to_the_overview_which_shows_figures_and_graphs(
    page: Page, address: str
) -> None:
    page.goto(address)

    expect(page).to_have_url(re.compile("/console/$"))
    rows = page.locator(".mr-tile", has_text="Rows in").locator(".mr-figure")
    expect(rows).to_have_text(re.compile(r"[1-9][\d.,k ]*rows/s"))
    expect(page.get_by_role("img", name="graph: Rows in")).to_be_visible()
    expect(page.locator(".mr-empty:visible")).to_have_count(0)
    expect(page.locator("table[aria-label=streams]")).to_contain_text("trades")


def test_a_part_of_the_plan_is_chosen_by_keyboard_and_tells_what_it_does(
    page: Page, address: str
) -> None:
    opened(page, f"{address}/console/plan")
    operator = page.locator(".mr-node.operator", has_text="aggregate").first
    expect(operator).to_be_visible()

    operator.focus()
    page.keyboard.press("Enter")

    expect(operator).to_have_attribute("aria-pressed", "true")
    side = page.get_by_role("region", name=re.compile("^aggregate"))
    expect(side).to_contain_text("rows in")
    expect(side).to_contain_text("time spent")
    for graph in ("Rows in and out", "Selectivity", "Time", "Remembered"):
        expect(page.get_by_role("img", name=f"graph: {graph}")).to_be_visible()
    time_spent = page.get_by_role("region", name="graph of Time")
    expect(time_spent.get_by_role("link", name="Open query")).to_have_attribute(
        "href", re.compile(r"/sysstream\?sql=SELECT.*operator.*seconds")
    )
    side.get_by_role("link", name=re.compile("^Open query")).click()
    expect(page.locator("h1")).to_have_text(re.compile("per_symbol|highest"))
    page.get_by_role("link", name="Show in the plan").click()
    expect(page.locator(".mr-node.feed")).to_have_count(1)
    page.get_by_label("find a query or a family").fill("acme_blocks")
    family = page.locator(".mr-node.family")
    expect(family).to_have_count(1)
    family.click()
    region = page.get_by_role("region", name=re.compile("^family"))
    expect(region).to_contain_text("selectivity")
    page.get_by_role("region", name="graph of Results per row").get_by_role("link").click()
    expect(page.get_by_role("img", name="graph: Results per row")).to_be_visible()
    expect(page.locator(".cm-content")).to_contain_text("type = 'family'")


def test_queries_are_listed_by_what_they_take(page: Page, address: str) -> None:
    opened(page, f"{address}/console/costs")
    names = page.locator("tbody tr td:first-child")
    expect(names.first).to_be_visible()
    assert {"per_symbol", "dear"} <= set(names.all_inner_texts())

    page.get_by_role("button", name="results").click()

    expect(page.locator("th[aria-sort]")).to_have_text("results")
    expect(names.first).to_have_text("per_symbol")


def test_how_answers_are_kept_changes_at_run_time(page: Page, address: str) -> None:
    asked = {"sql": "SELECT price FROM trades", "name": "waits", "retain": "5 minutes"}
    httpx.post(f"{address}/v1/queries", json=asked).raise_for_status()

    page.goto(f"{address}/console/query/waits")
    page.get_by_label("how answers are kept").click()
    page.get_by_role("option", name="eager").click()
    page.get_by_text("In force with the next epoch.").wait_for()
    assert httpx.get(f"{address}/v1/queries/waits").json()["policy"] == "eager"

    page.goto(f"{address}/console/plan")
    page.locator(".mr-node.feed", has_text="waits").click()
    page.get_by_label("how answers are kept").click()
    page.get_by_role("option", name="none").click()
    page.get_by_text("In force with the next epoch.").wait_for()
    assert httpx.get(f"{address}/v1/queries/waits").json()["policy"] == "none"
    httpx.delete(f"{address}/v1/queries/waits").raise_for_status()


def test_settings_and_retention_change_at_run_time(page: Page, address: str) -> None:
    opened(page, f"{address}/console/plan")
    target = page.get_by_label("Target of an epoch")
    expect(target).to_have_value("1 second")

    target.fill("soon")
    page.get_by_role("button", name="Change settings").click()
    expect(page.get_by_role("alert")).to_contain_text('"soon" is not a duration')
    target.fill("2 seconds")
    page.get_by_role("button", name="Change settings").click()
    expect(page.get_by_text("In force with the next epoch.")).to_be_visible()
    page.locator(".mr-node.stream", has_text="trades").click()
    page.get_by_label("history", exact=True).fill("20 minutes")
    page.get_by_role("button", name="Change", exact=True).click()
    expect(page.locator(".mr-props dd", has_text="20 minutes")).to_be_visible()
    page.locator(".mr-node.stream", has_text="quotes").click()
    expect(page.get_by_role("region", name="stream quotes")).to_be_visible()
    page.get_by_label("history", exact=True).fill("3 minutes")
    page.get_by_role("button", name="Change", exact=True).click()
    expect(page.locator(".mr-props dd", has_text="3 minutes")).to_be_visible()

    assert httpx.get(f"{address}/v1/settings").json()["settings"]["target"] == 2_000_000
    assert httpx.get(f"{address}/v1/streams/trades").json()["retain"] == "20 minutes"
    target.fill("1 second")
    page.get_by_role("button", name="Change settings").click()


def test_queries_are_searched_and_paged_in_the_server(page: Page, address: str) -> None:
    added = [
        {"sql": f"SELECT id FROM trades WHERE price > {n}", "name": f"page_{n:03}"}
        for n in range(1000, 1120)
    ]
    httpx.post(f"{address}/v1/queries/bulk", json={"add": added}, timeout=60).raise_for_status()

    opened(page, f"{address}/console/queries?search=page_")
    expect(page.get_by_role("status").last).to_have_text("1 to 50 of 120")
    expect(page.locator("tbody tr")).to_have_count(50)
    page.get_by_role("button", name="Next").click()
    expect(page.get_by_role("status").last).to_have_text("51 to 100 of 120")
    page.get_by_role("button", name="Next").click()
    expect(page.locator("tbody tr")).to_have_count(20)
    page.get_by_label("search names and texts").fill("page_1007")
    expect(page.locator("tbody tr")).to_have_count(1)
    expect(page.locator("tbody tr")).to_contain_text("price > 1007")
    page.get_by_label("search names and texts").fill("nothing is called so")
    expect(page.get_by_text("Nothing found")).to_be_visible()

    names = [each["name"] for each in added]
    httpx.post(f"{address}/v1/queries/bulk", json={"drop": names}, timeout=60).raise_for_status()


def test_a_query_is_written_corrected_explained_registered_paused_and_dropped(
    page: Page, address: str
) -> None:
    opened(page, f"{address}/console/queries/new")
    editor = page.locator(".cm-content")
    editor.click()
    page.keyboard.type("SELECT symbol, prise FROM trades WHERE size > 10")

    alert = page.get_by_role("alert")
    expect(alert).to_contain_text('column "prise" does not exist')
    expect(alert.locator("pre")).to_contain_text("^^^^^")
    expect(page.locator(".mr-wrong")).to_have_text("prise")
    page.keyboard.press("ControlOrMeta+a")
    page.keyboard.type("SELECT symbol, price FROM trades WHERE size > 10")
    expect(alert).to_have_count(0)
    page.keyboard.press("ControlOrMeta+Enter")
    expect(page.get_by_role("region", name="How it would run")).to_contain_text("index")
    page.get_by_role("button", name="Dry run").click()
    tried = page.get_by_role("region", name="What it would have answered in the last 10 minutes")
    expect(tried).to_contain_text("results")
    expect(tried.locator("tbody tr").first).to_be_visible()
    page.get_by_label("Name").fill("written_here")
    page.get_by_label("or so many of them").fill("a few")
    page.get_by_role("button", name="Register").click()
    expect(alert).to_contain_text('"a few" is not a number of answers')
    page.get_by_label("or so many of them").fill("")
    page.get_by_label("Answers kept for").fill("5 minutes")
    page.get_by_label("How answers are kept").click()
    page.get_by_role("option", name="eager").click()
    page.get_by_role("button", name="Register").click()

    expect(page.locator("h1")).to_have_text("written_here")
    expect(page.get_by_role("region", name="As it is understood")).to_contain_text(
        "ISTREAM(SELECT symbol, price FROM trades [RANGE UNBOUNDED] WHERE size > 10)"
    )
    kept = httpx.get(f"{address}/v1/queries/written_here").json()
    assert (kept["retain"], kept["policy"]) == ("5 minutes", "eager")
    expect(
        page.locator("table[aria-label='results of written_here'] tbody tr").nth(3)
    ).to_be_visible()
    page.get_by_role("button", name="Chart").click()
    expect(page.get_by_role("img", name="graph: results")).to_be_visible()
    page.get_by_role("button", name="Pause").click()
    expect(page.locator(".mr-head .mr-chip")).to_have_text("paused")
    page.get_by_role("button", name="Resume").click()
    expect(page.locator(".mr-head .mr-chip")).to_have_text("running")
    page.get_by_role("button", name="Drop", exact=True).click()
    page.get_by_role("button", name="Drop it").click()
    expect(page).to_have_url(re.compile("/console/queries$"))
    assert httpx.get(f"{address}/v1/queries/written_here").status_code == 404


def test_a_graph_is_opened_edited_and_kept_as_a_standing_query(page: Page, address: str) -> None:
    opened(page, f"{address}/console/sysstream?graph=latency")
    expect(page.get_by_role("img", name="graph: Epoch latency")).to_be_visible()
    page.locator(".cm-content").click()
    page.keyboard.press("ControlOrMeta+a")
    page.keyboard.type("SELECT ts, fval FROM sysstream WHERE type = 'epoch' AND property = 'n'")
    page.keyboard.press("ControlOrMeta+Enter")
    page.get_by_role("button", name="Table").click()
    expect(page.locator("table[aria-label=answer] th")).to_have_text(["ts", "fval"])

    page.get_by_label("Name").fill("kept_graph")
    page.get_by_role("button", name="Keep as a standing query").click()

    expect(page.locator("h1")).to_have_text("kept_graph")
    expect(page.locator("tbody tr").first).to_be_visible()
    httpx.delete(f"{address}/v1/queries/kept_graph").raise_for_status()


def test_hostile_names_and_values_are_shown_and_not_run(page: Page, address: str) -> None:
    spelt = HOSTILE.replace("'", "''").replace("/", "|")  # a name has no slash
    name = HOSTILE.replace("/", "|")
    sql = f"SELECT symbol, '{spelt}' AS \"<b>loud</b>\" FROM trades"
    added = httpx.post(f"{address}/v1/queries", json={"sql": sql, "name": name}, timeout=60)
    assert added.status_code == 201, added.text

    page.goto(f"{address}/console/queries?search=onerror")
    page.get_by_role("link", name=name).click()
    expect(page.locator("h1")).to_have_text(name)
    expect(page.locator("tbody td", has_text="onerror").first).to_be_visible()
    expect(page.locator("th", has_text="<b>loud</b>")).to_be_visible()
    opened(page, f"{address}/console/plan")
    page.locator(".mr-node.feed", has_text="onerror").click()
    expect(page.get_by_role("region", name=re.compile("onerror")).first).to_be_visible()
    opened(page, f"{address}/console/sysstream?graph=top")
    page.get_by_role("img", name="graph: Results by query").hover()
    page.goto(f"{address}/console/query/{'<script>alert(3)<|script>'}")
    expect(page.get_by_role("alert")).to_contain_text("does not exist")

    assert page.locator("img[src=x]").count() == 0
    [found] = httpx.get(f"{address}/v1/queries", params={"search": "onerror"}).json()["queries"]
    httpx.delete(f"{address}/v1/queries/{found['id']}").raise_for_status()


def test_keys_lead_through_the_console(page: Page, address: str) -> None:
    opened(page, f"{address}/console/")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the page"

    page.keyboard.press("g")
    page.keyboard.press("q")
    expect(page).to_have_url(re.compile("/console/queries$"))
    page.keyboard.press("/")
    expect(page.get_by_label("search names and texts")).to_be_focused()
    page.keyboard.press("Escape")
    page.locator("h1").click()
    page.keyboard.press("t")
    expect(page.locator("body.body--dark")).to_be_visible()
    page.reload()
    expect(page.locator(".mr-top [role=status]")).to_have_text("live")
    expect(page.locator("body.body--dark")).to_be_visible()
    page.locator("h1").click()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_contain_text("search for a query")
    page.keyboard.press("Escape")
    page.keyboard.press("n")
    expect(page).to_have_url(re.compile("/console/queries/new$"))
