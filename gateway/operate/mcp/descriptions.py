"""What a model is told of each tool: what it returns, in which units, and when it is the right one.

The registry's summaries are for people who read the API. A tool without a row has its summary.
"""

from collections.abc import Mapping
from typing import Final

from gateway.operate.operation import AnyOperation

_MONEY: Final = "Money is decimal text by currency code; amounts of two currencies are never added."
_PAGES: Final = "A page at a time: pass pagination.cursor.next_cursor as `cursor` for the next one."
_TELL: Final = "It changes what everyone sees, so tell the person what you are about to do first."

DESCRIPTIONS: Final[Mapping[str, str]] = {
    # usage
    "showUsage": "Sums of billed AI calls: calls, failed calls, tokens (input includes cache reads and writes, output includes"
    " reasoning) and cost, grouped by up to three dimensions or by hour or day. Use it for any question about spend or volume,"
    " with a `range` such as last_week, or `from` (included) and `to` (not included), and filters by name."
    " Tags of this gateway are dimensions as tag:NAME (list_resource_tags has them)."
    " `compare`=previous adds the period before to each row: use it to say what rose."
    " `latency`=true adds percentiles of how long calls took, in ms. The rows are in `usage`, their sum over all"
    f" pages in `totals`. {_MONEY} A count of tokens is null where no call reported it. Times are UTC unless `time_zone` names"
    " another zone.",
    "listCosts": "The same sums as show_usage, with its rows as `costs`. Prefer show_usage.",
    "listDimensions": "The dimensions that usage can be grouped and filtered by, each with the 100 names that cost most in the"
    " last 30 days. Use it to find how a team, model, user or project is spelled before you filter by it.",
    "listResourceTags": "The tags that this gateway keeps, such as a feature or a customer, each with the 100 values that cost"
    " most in the last 30 days. Ask show_usage for one with group_by tag:NAME, and filter with `tag`, such as feature=search.",
    "listCalls": "Single AI calls that were settled lately, the newest first: time, model, tokens, cost, who caused it, the outcome"
    " of each and, in `because`, why it was counted so. Use it to explain a figure or find an example; use show_usage for sums."
    " It shows no prompt. Calls are kept for about a day after they were forwarded.",
    "readCall": "One of these calls by its `record_id`: the whole record (user and session too, if the sender names them),"
    " what each of its flags means, who states its cost, and in `related` the other reports of it and calls of its trace, each"
    " with why it was counted so. Use it to say why one call counts as it does. Pass the `cursor` of the list's page for one"
    " that is far back.",
    # health
    "showVerdict": "Whether the gateway is well, and what is wrong if not: each finding with why, what to do, and the path of its"
    " page. `safe` says what is kept and what is lost. Use it first when data is missing or late, or somebody asks whether all is"
    " well. It says nothing about money: list_insights does.",
    # insights
    "listInsights": "What the gateway noticed by itself: spikes of spend, new or unpriced models, lost calls, errors, held"
    " deliveries, crossed budgets. Use it first when something rose or is missing. `cost_impact` is decimal text in the currency"
    f" that the title names, or null. {_PAGES}",
    "readInsight": "One insight by its id.",
    "listComments": "What people wrote about one insight, for example why a spike is expected.",
    "createInsight": "Make an insight by hand, for something that the gateway did not notice itself."
    f" Returns it with its id. A repeated call makes a second one. {_TELL}",
    "changeInsight": "Set an insight's `status`: in_progress while someone looks into it, addressed to close it as solved,"
    " ignored to close it as expected, on_hold, or new. Of an insight that the gateway found, nothing else can be changed."
    f" The earlier status is overwritten. {_TELL}",
    "addComment": "Write a comment on an insight, such as the cause you found. It is stored under the name of your key."
    " A repeated call writes it twice.",
    "changeComment": "Replace the text of a comment; its author stays.",
    # budgets
    "listBudgets": "Budgets, each with its amount, period, filter and state: spent, remaining, forecast, and `hard_stop`."
    f" `ratio` is spent / amount (0.8 is 80 %). {_PAGES}",
    "readBudget": "One budget with its state and its latest alerts. Take the id from list_budgets.",
    "readBudgetState": "Only what is spent, left and forecast of one budget, and whether AI calls should stop.",
    "createBudget": "Make a budget: what AI calls may cost in each day, week, month, quarter or year (UTC)."
    ' `amount` is decimal text such as "1000"; `filter` maps a dimension to names, such as {"team": ["core"]}, and without it'
    " every call counts. Thresholds are percent of the amount, of what is spent (`actual`) or expected (`forecast`), and alert"
    f" people once a period. A name that is in use is refused. {_TELL}",
    "changeBudget": "Change some fields of a budget; those that you leave out stay as they are. `filter` and `thresholds` are"
    f" replaced as a whole. The earlier values are overwritten: read the budget first. {_TELL}",
    # views
    "listViews": f"Saved questions about usage, each with its name, filter, groups and range of time. {_PAGES}",
    "readView": "One saved question; `usage` is the query that asks it now: give its parameters to show_usage.",
    "createView": "Save a question about usage under a name, so that people find it on the page: filter, group_by (or interval)"
    " and a range that moves with time, such as last_30_days, or two dates, such as 2026-11-02/2026-11-09; `compare`, `search`"
    " and `time_zone` as in show_usage. A name that is in use is refused.",
    "changeView": "Change some fields of a saved question; those that you leave out stay. The earlier values are overwritten:"
    f" read the view first. {_TELL}",
    # allocation
    "listAllocationDefinitions": "Rules that give a team, a project or a tag to calls that bring none: of each target the version"
    " that is applied. show_usage answers by them, and `allocation`=none shows the original figures.",
    "listAllocationVersions": "All versions of one target's rules, the latest first, with who made them and why.",
    "readAllocationVersion": "One version of a target's rules.",
    "previewAllocation": "What rules would move in a range of time, before anything is changed: what each rule gives away, and each"
    " name of the target before and after. Totals never change. Use it before you make a version, and show the person the result."
    f" {_MONEY}",
    "createAllocationDefinition": "Make the first rules of a target. Each rule has `match` (dimension to names, null for unknown)"
    ' and `shares`, such as [{"name": "search", "percent": "60"}, {"name": "chat", "percent": "40"}], which add up to 100. A call'
    " without the target belongs to the first rule that it matches. They are applied at once, to past days too, and nothing"
    f" that is kept changes. Preview first. {_TELL}",
    "createAllocationVersion": "Make the next version of a target's rules, in place of all its rules; an empty list ends the"
    f" allocation. Earlier versions stay readable. Preview first. {_TELL}",
    # recommendations
    "listRecommendations": "What could be saved, each with the amount in a month, the formula, and the figures that show it:"
    " a smaller model for short answers, a cache that is written and hardly read, reasoning that is longer than the answer, batch"
    " prices, failed calls that are paid for. Use it for any question about how to spend less. `saving` is `cost` less `cost_instead`; two of the same calls do"
    f" not add up. {_MONEY} {_PAGES}",
    "readRecommendation": "One recommendation by its id. `realised` is what was saved since it was accepted.",
    "changeRecommendation": "Set a recommendation's `state`: accepted once people follow it (its saving is measured from then on),"
    f" dismissed, or open. {_TELL}",
    # unit cost
    "listUnitCostStreams": "Unit-cost streams that this gateway feeds: name, kind (allocation: a quantity by element, such as a"
    " customer; metric: one quantity), granularity, dimensions, and how many items wait to be sent. It shows no"
    f" values: the cost service has them. {_PAGES}",
    "readUnitCostStream": "One unit-cost stream by its name: its shape, and how many of its items wait to be sent.",
    # billing
    "showBilling": "Days of cost data that were sent to the billing connection or are due, with their state. A fault says that no"
    " connection is configured.",
    "listRelayedDrops": "Cost data of other systems that this gateway passes on: what waits, was refused, or was delivered in the"
    f" last seven days. {_PAGES}",
    # who sends
    "listDevices": f"Enrolled machines and gateways, with their state and when each was last heard of. {_PAGES}",
    "readDevice": "One device: what it reported of itself, and its enrolment.",
    "listSenders": "Who sends telemetry: by key, product and format, when it last sent, how much, and what is wrong with it. Use it"
    f" when a team's calls or tokens are missing. {_PAGES}",
    # delivery
    "status": "Whether the gateway is well: what was received, kept, rejected and delivered since it began, and the state of each"
    " lane (the queue of one destination). Use it to see whether figures at the cost service may lag behind.",
    "listDeadLetters": f"Records that the cost service refused for good, with the reason. They are missing there. {_PAGES}",
    "readDeadLetter": "One refused record with its reason. It holds no prompt.",
}  # fmt: skip
"""Id of an operation -> what it is told as."""


def description_of(operation: AnyOperation) -> str:
    known = DESCRIPTIONS.get(operation.id)
    return ". ".join(filter(None, (operation.summary, operation.text))) if known is None else known
