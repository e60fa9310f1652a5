"""Log records -> calls. Pure. No table reads logs yet: each record is counted as `ignored`."""

from gateway.decode.view import Logs
from gateway.normalise.call import Normalised
from gateway.normalise.context import Context


def normalise_logs(logs: Logs, context: Context) -> Normalised:
    items = sum(len(scope.log_records) for resource in logs.request.resource_logs for scope in resource.scope_logs)
    return Normalised(items=items, ignored=items)
