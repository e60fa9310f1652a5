"""Puts the gRPC listener together."""

from operator import attrgetter

from gateway.common.contract.intake import Intake
from gateway.common.tls import ServerTls
from gateway.config.model import Config, admits_by_certificate
from gateway.config.values import Address
from gateway.serve.admission import Admission, no_subject
from gateway.serve.assembly import InboundKeys, build_grpc_gate
from gateway.serve.grpc.export import Exports
from gateway.serve.grpc.listen import GrpcServer, bind_grpc
from gateway.serve.listen import Closing
from gateway.serve.receiver import Receiver


async def listen_for_grpc(
    closing: Closing,
    config: Config,
    receiver: Receiver,
    intake: Intake,
    keys: InboundKeys,
    tls: ServerTls | None = None,
) -> Address:
    """Serve OTLP/gRPC with the limits, keys and answers of *receiver*; what was bound, None where
    it is off.

    Raises CannotStart.
    """
    shared = receiver.admission
    reads_subjects = admits_by_certificate(config, "grpc")
    subject_in = attrgetter("subject") if reads_subjects else no_subject
    admission = Admission(build_grpc_gate(config, keys), shared.quotas, subject_in)
    server = GrpcServer(receiver, Exports(receiver, admission, intake), reads_subjects=reads_subjects)
    return await bind_grpc(closing, server, config.listen.grpc, tls)
