"""Puts the gRPC listener together. Importing this loads grpc."""

from contextlib import AsyncExitStack

from gateway.config.model import Config
from gateway.config.values import Address
from gateway.contract.intake import Intake
from gateway.grpc.listen import bind_grpc
from gateway.grpc.receiver import GrpcReceiver
from gateway.receiver.admission import Admission
from gateway.receiver.assembly import InboundKeys, build_grpc_gate
from gateway.receiver.server import Receiver


async def listen_for_grpc(
    stack: AsyncExitStack, config: Config, receiver: Receiver, intake: Intake, keys: InboundKeys
) -> Address:
    """Serve OTLP/gRPC beside *receiver*; what was bound, None where it is off.

    Raises CannotStart.
    """
    shared = receiver.admission
    admission = Admission(build_grpc_gate(config, keys), shared.quotas, shared.recent)
    return await bind_grpc(stack, GrpcReceiver(receiver, admission, intake), receiver.limits, config.listen.grpc)
