"""The base of every group of options."""

from pydantic import BaseModel, ConfigDict


class Options(BaseModel):
    """A group of options: frozen, and closed to names it does not know."""

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True, hide_input_in_errors=True)
