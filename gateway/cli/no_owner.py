"""A gateway of a cell that reaches no owner, who alone knows what is asked."""

from http import HTTPStatus
from typing import Final

from gateway.cli.options import RefusedByGateway
from gateway.operate.findings.finding import Finding
from gateway.serve.http.to_owner import NO_OWNER

NO_OWNER_REMEDY: Final = (
    "wait some seconds: another gateway takes the cell when the last owner's lease ends. If none does, run"
    " `telemetry-gateway doctor` with the --config of a gateway, and look in their logs for `cell could not be owned`"
)


def is_without_owner(error: Exception) -> bool:
    """Whether a gateway answered that it reaches no owner."""
    is_refusal = isinstance(error, RefusedByGateway) and error.status == HTTPStatus.SERVICE_UNAVAILABLE
    return is_refusal and NO_OWNER in str(error)


def without_owner(error: Exception) -> Finding:
    """What *error*, of a gateway that reaches no owner, comes to."""
    return Finding("fault", "cell", f"this gateway runs, but {error}", NO_OWNER_REMEDY)
