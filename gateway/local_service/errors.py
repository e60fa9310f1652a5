"""The service's errors and their responses. Texts name fields and positions, never values.

Two shapes of body: `{"error": {"message", "type"}}` for an invalid request, `{"message"}` for
authentication and size.
"""

from gateway.local_service.call import ServiceAnswer, json_answer


class ServiceError(Exception):
    """Base; `answer()` is the response."""

    status = 500

    def answer(self) -> ServiceAnswer:
        return json_answer(self.status, {"message": str(self)})


class Unauthorized(ServiceError):
    """No key, a malformed or unknown one, one that is disabled, or one behind a scheme word."""

    status = 401

    def __init__(self) -> None:
        super().__init__("Unauthorized")


class Forbidden(ServiceError):
    """A known key without the scope; clients compare the text, which is the service's own."""

    status = 403

    def __init__(self) -> None:
        super().__init__("User is not authorized to access this resource")


class TooLarge(ServiceError):
    status = 413


class TooSlow(ServiceError):
    """The body did not arrive in time."""

    status = 408


class Invalid(ServiceError):
    """A request, or one item of it, breaks a rule of the contract."""

    status = 400

    def __init__(self, code: str, message: str, *, status: int = 400) -> None:
        super().__init__(message)
        self.code = code
        self.status = status

    def answer(self) -> ServiceAnswer:
        return json_answer(self.status, {"error": {"message": str(self), "type": self.code}})


class StreamBlocked(Invalid):
    """A stream of this name was deleted a short while ago."""

    def __init__(self, retry_after_s: int) -> None:
        super().__init__("stream_blocked", "a stream of this name was deleted: the name is blocked", status=409)
        self._retry_after_s = retry_after_s

    def answer(self) -> ServiceAnswer:
        return super().answer()._replace(retry_after_s=self._retry_after_s)


class DeviceUnknown(Invalid):
    def __init__(self) -> None:
        super().__init__("device_unknown", "no device has this id", status=404)


class DeviceBlocked(Invalid):
    def __init__(self) -> None:
        super().__init__("device_blocked", "the device is blocked", status=403)


class DeviceExists(Invalid):
    """The device is enrolled under another enrolment of the same or a later epoch."""

    def __init__(self, device_id: str) -> None:
        super().__init__("device_exists", "the device is enrolled already", status=409)
        self.device_id = device_id

    def answer(self) -> ServiceAnswer:
        return json_answer(409, {"device_id": self.device_id, "error": {"message": str(self), "type": self.code}})
