"""The bodies of billing drops that senders give to this gateway, checked as the service checks them
(wire contract 6.5), so that what is accepted here is taken there.
"""

from gateway.billing.relay import ReadDrop
from gateway.contract.errors import BadRecord
from gateway.local_service.billing_bodies import read_drop, refuse_other_sums
from gateway.local_service.checks import decoded_object
from gateway.local_service.errors import Invalid


def read_relayed(body: bytes) -> ReadDrop:
    """Raises BadRecord, which names the row and the field."""
    try:
        drop = read_drop(decoded_object(body))
        if drop.manifest is None:
            return ReadDrop(drop.month, len(drop.rows), drop.operation)
        if drop.manifest.parts == 1:
            refuse_other_sums(drop.rows, drop.manifest)
    except Invalid as error:
        raise BadRecord(error.code, str(error)) from error
    manifest = drop.manifest
    division = f"{manifest.revision}/{manifest.parts}"
    return ReadDrop(drop.month, len(drop.rows), drop.operation, f"{manifest.source}\x00{manifest.day}", division)
