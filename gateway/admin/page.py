"""The status page: plain HTML from the figures, whole without JavaScript or
anything from elsewhere. Pure.

Every value is escaped where it is put in: model names and reasons come from
senders and from the upstream.
"""

import base64
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Final

from gateway.delivery.embedded import Total, TotalsPage
from gateway.insights.finding import STATUSES, Insight
from gateway.observability.dead_letters import ReasonFigures
from gateway.observability.lane_log import waiting_in_vain
from gateway.observability.metrics import EDGE_OUTCOMES, LANE_OUTCOMES, LaneStatus, Status
from gateway.observability.quarantine import degraded
from spool.dead_letters import QUARANTINED

STYLE: Final = """
:root{color-scheme:light dark;--fg:#1a1d21;--bg:#fff;--soft:#667;--line:#d8dce2;--ok:#11703a;--bad:#b3261e}
@media (prefers-color-scheme:dark){:root{--fg:#e6e8eb;--bg:#15171a;--soft:#9aa3ad;--line:#333940;--ok:#5fd08a;--bad:#ff8a80}}
body{font:16px/1.5 system-ui,sans-serif;color:var(--fg);background:var(--bg);max-width:72rem;margin:2rem auto;padding:0 1rem}
h1{font-size:1.4rem;margin:0}h2{font-size:1.1rem;margin:2rem 0 .5rem}
.ok{color:var(--ok)}.bad{color:var(--bad)}.soft{color:var(--soft)}
.verdict{font-size:1.2rem;font-weight:600;margin:.25rem 0 1.5rem}
dl{display:flex;flex-wrap:wrap;gap:1rem;margin:0}dl div{border:1px solid var(--line);border-radius:.5rem;padding:.6rem 1rem}
dt{color:var(--soft);font-size:.85rem}dd{margin:0;font-size:1.6rem;font-variant-numeric:tabular-nums}
table{border-collapse:collapse;width:100%}caption{text-align:left;color:var(--soft);font-size:.9rem;padding:.25rem 0}
th,td{text-align:left;padding:.35rem .6rem;border-bottom:1px solid var(--line)}
.n{text-align:right;font-variant-numeric:tabular-nums}.wide{overflow-x:auto}
input,button{font:inherit;padding:.4rem .6rem}
td button{font-size:.85rem;padding:.1rem .4rem}
"""

STYLE_HASH: Final = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()

CONTENT_SECURITY_POLICY: Final = (
    f"default-src 'none'; style-src 'sha256-{STYLE_HASH}'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)

STATUS_FORM_PATH: Final = "/insights/{insight_id}/status"
"""Where a button beside an insight posts to."""

REFRESH_S = 10
MOST_INSIGHTS = 50
MOST_REASONS = 50
MOST_MODELS: Final = 50
"""Shown on the page: it comes anew every ten seconds, whatever senders name."""
MODELS_FROM: Final = "models_from"
"""Parameter of the page: the first model that is shown, from 0."""

LOGIN_FORM: Final = (
    '<form method="post" action="/login"><label>Admin token '
    '<input type="password" name="token" autocomplete="off" required></label> <button>Open</button></form>'
)


TOTAL_COLUMNS: Final[Mapping[str, str]] = {
    "calls": "Calls",
    "input_tokens": "Input",
    "cache_read_input_tokens": "of it cache reads",
    "cache_creation_input_tokens": "cache writes",
    "output_tokens": "Output",
    "reasoning_output_tokens": "of it reasoning",
    "cost": "Cost",
}


def status_page(status: Status, totals: TotalsPage, insights: Sequence[Insight] = ()) -> str:
    """The whole page."""
    edge, lanes = status["edge"], status["lanes"]
    body = [
        "<h1>AI telemetry gateway</h1>",
        verdict(status),
        headline(edge, lanes),
        "<h2>What came in</h2>",
        identity("received", edge["received"], {outcome: edge[outcome] for outcome in EDGE_OUTCOMES}),
        "<h2>What went out</h2>",
        lanes_identity(edge, lanes),
        lanes_table(lanes),
        *dead_letters_part(status.get("dead_letters", ())),
        "<h2>AI calls delivered</h2>",
        totals_table(totals),
        "<h2>What to look at</h2>",
        insights_table(insights),
    ]
    return document("AI telemetry gateway", body, refresh=True)


def login_page(message: str) -> str:
    """Asks for the admin token."""
    body = [
        "<h1>AI telemetry gateway</h1>",
        f"<p>{escape(message)}</p>",
        LOGIN_FORM,
        '<p class="soft">The token is in the file <code>admin-token</code> of the data directory.</p>',
    ]
    return document("Log in", body, refresh=False)


def document(title: str, body: Iterable[str], *, refresh: bool) -> str:
    again = f'<meta http-equiv="refresh" content="{REFRESH_S}">' if refresh else ""
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"{again}<title>{escape(title)}</title><style>{STYLE}</style></head><body><main>{''.join(body)}</main></body></html>"
    )


def verdict(status: Status) -> str:
    """One sentence that states whether to worry, and about what."""
    faults = faults_of(status)
    if faults:
        return f'<p class="verdict bad" role="status">{escape("; ".join(faults))}</p>'
    return '<p class="verdict ok" role="status">Every item is accounted for, and every lane in use delivers.</p>'


def faults_of(status: Status) -> list[str]:
    """What is wrong by *status*, a sentence each; empty when all is well."""
    edge, lanes = status["edge"], status["lanes"]
    faults = []
    if edge["received"] != sum(edge[outcome] for outcome in EDGE_OUTCOMES):
        faults.append("the counts at the edge do not add up")
    faults += [f"the counts of lane {name} do not add up" for name, lane in lanes.items() if not adds_up(lane)]
    waiting = waiting_in_vain(lanes)
    faults += [
        f"lane {name} is {lane['state']}"
        for name, lane in lanes.items()
        if lane["state"] in ("behind", "retrying", "held") and name not in waiting
    ]
    faults += waiting.values()
    if "quarantine" in status and (why := degraded(status["quarantine"])) is not None:
        faults.append(why)
    refused = letters_to_look_at(status)
    if refused:
        faults.append(f"{records(refused)} {'was' if refused == 1 else 'were'} refused by the upstream")
    return faults


def records(n: int) -> str:
    return f"{number(n)} {'record' if n == 1 else 'records'}"


def letters_to_look_at(status: Status) -> int:
    """Dead letters of the upstream that are still here; those that an operator dropped are dealt
    with, though they stay counted, and what the spool lost is no one's refusal.
    """
    if "dead_letters" in status:
        return sum(reason["records"] for reason in status["dead_letters"] if reason["reason"] != QUARANTINED)
    return sum(lane["dead_lettered"] for lane in status["lanes"].values())


def adds_up(lane: LaneStatus) -> bool:
    return lane["kept"] == lane["delivered"] + lane["pending"] + lane["dead_lettered"] + lane["expired"]


def headline(edge: Mapping[str, int], lanes: Mapping[str, LaneStatus]) -> str:
    figures = {
        "Received": edge["received"],
        "Delivered": sum(lane["delivered"] for lane in lanes.values()),
        "Waiting": sum(lane["pending"] for lane in lanes.values()),
        "Dead letters": sum(lane["dead_lettered"] for lane in lanes.values()),
    }
    return "<dl>" + "".join(f"<div><dt>{k}</dt><dd>{number(n)}</dd></div>" for k, n in figures.items()) + "</dl>"


def identity(whole: str, value: int, parts: Mapping[str, int]) -> str:
    """`received 10 = kept 7 + duplicate 2 + …`, marked when it does not hold."""
    holds = value == sum(parts.values())
    sign = '<span class="ok">=</span>' if holds else '<strong class="bad">≠</strong>'
    terms = " + ".join(f"{words(name)} <strong>{number(n)}</strong>" for name, n in parts.items())
    return f"<p>{words(whole)} <strong>{number(value)}</strong> {sign} {terms}</p>"


def lanes_identity(edge: Mapping[str, int], lanes: Mapping[str, LaneStatus]) -> str:
    parts = {outcome: sum(int(lane[outcome]) for lane in lanes.values()) for outcome in LANE_OUTCOMES}
    return identity("kept", parts.pop("kept"), parts) if lanes else '<p class="soft">No lane is set up.</p>'


def lanes_table(lanes: Mapping[str, LaneStatus]) -> str:
    """The table of lanes, HTML lines; `status` is the document of /v2/status."""
    head = ["Lane", "State", *(words(outcome).capitalize() for outcome in LANE_OUTCOMES), "Oldest waiting"]
    rows = [
        [
            escape(name),
            lane_state(lane),
            *(number(int(lane[outcome])) for outcome in LANE_OUTCOMES),
            age(lane["oldest_pending_age_s"]),
        ]
        for name, lane in lanes.items()
    ]
    return table("One queue to one destination; kept = delivered + pending + dead lettered + expired", head, rows, 2)


def dead_letters_part(reasons: Sequence[ReasonFigures]) -> list[str]:
    """Nothing where there are none."""
    if not reasons:
        return []
    rows = [
        [escape(x["lane"]), escape(x["reason"]), escape(x["oldest_at"]), escape(x["newest_at"]), number(x["records"])]
        for x in reasons[:MOST_REASONS]
    ]
    more = f"; {number(len(reasons) - len(rows))} more in /v2/status" if len(reasons) > len(rows) else ""
    caption = (
        "Kept, to be looked at, put back or dropped: telemetry-gateway spool dead-letters; "
        f"what the spool itself lost is {QUARANTINED}, the rest the upstream refused{more}"
    )
    head = ["Lane", "Reason", "Oldest", "Newest", "Records"]
    return ["<h2>Dead letters</h2>", table(caption, head, rows, 4)]


def lane_state(lane: LaneStatus) -> str:
    kind = {"ok": "ok", "off": "soft"}.get(lane["state"], "bad")
    reason = f" <span class='soft'>{escape(lane['reason'])}</span>" if lane["reason"] else ""
    return f'<span class="{kind}">{escape(lane["state"])}</span>{reason}'


def totals_table(totals: TotalsPage) -> str:
    """The table of calls and tokens by provider and model, with links to the models before and
    behind those that are shown.
    """
    if not totals.are_known:
        return '<p class="soft">The upstream has them: its reports show tokens and cost.</p>'
    shown = totals.rows[:MOST_MODELS]
    links = model_links(totals.first, len(shown), totals.first + len(totals.rows), totals.groups)
    if not shown:
        return links or '<p class="soft">None yet.</p>'
    rows = [
        [escape(total.get("provider") or "unknown"), escape(total.get("model") or "unknown")]
        + [total_cell(total, column) for column in TOTAL_COLUMNS]
        for total in shown
    ]
    head = ["Provider", "Model", *TOTAL_COLUMNS.values()]
    return table("Billed calls by provider and model, most calls first; tokens", head, rows, 2) + links


def total_cell(total: Total, column: str) -> str:
    """A figure of the table; `unknown` where no call states it, and with the currency of a cost."""
    if column == "cost":
        return cost_cell(total)
    if column != "calls" and total.get("calls") and total.get("calls_without_usage") == total.get("calls"):
        return "unknown"
    return cell(total.get(column))


def cost_cell(total: Total) -> str:
    """Every currency with its sum, and how many calls have none."""
    cost, unpriced = total.get("cost"), total.get("calls_without_cost", 0)
    sums = [
        *([f"USD {cost}"] if cost is not None else []),
        *(f"{k} {v}" for k, v in total.get("other_costs", {}).items()),
    ]
    if not sums:
        return "unknown"
    more = [f'<span class="soft">{number(unpriced)} without</span>'] if unpriced else []
    return "<br>".join([*map(escape, sums), *more])


def model_links(first: int, shown: int, known: int, groups: int | None) -> str:
    """Empty where every model is shown."""
    more = (known if groups is None else groups) - first - shown
    links = []
    if first:
        links.append(f'<a href="/?{MODELS_FROM}={max(0, first - MOST_MODELS)}">those before</a>')
    if more > 0:
        links.append(f'<a href="/?{MODELS_FROM}={first + shown}">and {number(more)} more</a>')
    return f"<p>{', '.join(links)}; all in <code>/v2/ai-telemetry/summary</code> of the service</p>" if links else ""


def insights_table(insights: Sequence[Insight]) -> str:
    """The table of open insights, HTML lines; empty without any."""
    if not insights:
        return '<p class="soft">Nothing.</p>'
    shown = insights[:MOST_INSIGHTS]
    rows = [
        [
            escape(x["title"]),
            escape(x["category"]),
            escape(x["effort"]),
            words(x["status"]),
            status_buttons(x),
            cell(x["cost_impact"]),
        ]
        for x in shown
    ]
    more = f"; {number(len(insights) - len(shown))} more in /v2/insights" if len(insights) > len(shown) else ""
    head = ["Insight", "Category", "Effort", "Status", "Set it to", "Cost impact"]
    return table(f"What the gateway found, the latest first{more}", head, rows, 5)


def status_buttons(insight: Insight) -> str:
    """A form of its own a row: a button is pressed at once, so that the page
    coming anew loses no choice.
    """
    others = [status for status in STATUSES if status not in ("new", insight["status"])]
    buttons = " ".join(f'<button name="status" value="{status}">{words(status)}</button>' for status in others)
    path = STATUS_FORM_PATH.replace("{insight_id}", escape(insight["id"]))
    return f'<form method="post" action="{path}" aria-label="Status of {escape(insight["title"])}">{buttons}</form>'


def table(caption: str, head: Sequence[str], rows: Sequence[Sequence[str]], text_columns: int) -> str:
    """*head* and *rows* are HTML already; columns after the first *text_columns* are numbers."""
    kinds = ["" if index < text_columns else ' class="n"' for index in range(len(head))]
    heads = "".join(f'<th scope="col"{kind}>{name}</th>' for kind, name in zip(kinds, head, strict=True))
    lines = [
        "<tr>" + "".join(f"<td{kind}>{text}</td>" for kind, text in zip(kinds, row, strict=True)) + "</tr>"
        for row in rows
    ]
    return (
        f'<div class="wide" tabindex="0"><table><caption>{caption}</caption><thead><tr>{heads}</tr></thead>'
        f"<tbody>{''.join(lines)}</tbody></table></div>"
    )


def cell(value: object) -> str:
    if value is None:
        return "unknown"
    return number(value) if isinstance(value, int) else escape(str(value))


def number(n: int) -> str:
    return f"{n:,}"


def words(name: str) -> str:
    return escape(name.replace("_", " "))


def age(seconds: float | None) -> str:
    """`12 s`, `3 min`, `5 h`, `2 d`; a dash when nothing waits."""
    if seconds is None:
        return "-"
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} s"
