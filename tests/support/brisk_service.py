"""The local service as a process that asks devices for a heartbeat every 15 s, the least that a
gateway accepts, not every 60 s.
"""

from gateway.cli.main import main
from gateway.local_service import devices

devices.HEARTBEAT_INTERVAL_S = 15

if __name__ == "__main__":
    main()
