"""`completion`: the script by which a shell completes the commands of `telemetry-gateway`."""

from typing import Final

import click
from click.shell_completion import get_completion_class

SHELLS: Final = ("bash", "zsh", "fish")
PROGRAM: Final = "telemetry-gateway"
VARIABLE: Final = "_TELEMETRY_GATEWAY_COMPLETE"
_AT_FIRST_LOAD: Final = "[[ $zsh_eval_context[-1] == loadautofunc ]]"
"""What click's script for zsh asks in a folder of `$fpath`. It holds for the first completion of a
shell alone: the second one registered the function and completed nothing.
"""
_IN_COMPLETION: Final = "(( ${+compstate} ))"


def script_of(shell: str, command: click.Command) -> str:
    """The script for one of `SHELLS`; it asks *command* at each completion."""
    complete_class = get_completion_class(shell)
    if complete_class is None:
        raise click.UsageError(f"{shell}: one of {', '.join(SHELLS)} is needed")
    complete = complete_class(command, {}, PROGRAM, VARIABLE)
    script = complete.source_template % complete.source_vars()  # `source()` would start bash, to ask its version
    return script.replace(_AT_FIRST_LOAD, _IN_COMPLETION)
