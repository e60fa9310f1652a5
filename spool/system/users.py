"""The user that this process runs as, and who owns files.

Windows has neither numbers of users nor modes: who may use a file is in its access list, which a
new data directory restricts to its owner (`os.mkdir` with mode 0700), and `stat` states owner 0.
"""

import os
import sys
from typing import Final

HAS_MODES: Final = sys.platform != "win32"
"""Whether the mode of a file states who may use it."""

if sys.platform == "win32":
    import getpass

    def user_id() -> int:
        return 0

    def is_superuser() -> bool:
        return False

    def user_name(uid: int) -> str:
        return getpass.getuser()

    def group_name() -> str:
        return ""

else:
    import grp
    import pwd

    def user_id() -> int:
        """The effective one."""
        return os.geteuid()

    def is_superuser() -> bool:
        """Whether rights do not bind this process."""
        return os.geteuid() == 0

    def user_name(uid: int) -> str:
        """Its number where it has no name."""
        try:
            return pwd.getpwuid(uid).pw_name
        except KeyError:
            return str(uid)

    def group_name() -> str:
        """Of the effective group; its number where it has no name."""
        try:
            return grp.getgrgid(os.getegid()).gr_name
        except KeyError:
            return str(os.getegid())
