"""Where the canary strings, which stand for prompts, completions and provider
keys, may never be found.
"""

from pathlib import Path

CANARY = b"CANARY-7Q"


def files_with_canary(folder: Path) -> list[str]:
    """Files under *folder*, database pages and write-ahead logs included, that hold a
    canary in any common encoding.
    """
    forms = (CANARY, CANARY.decode().encode("utf-16-le"), CANARY.hex().encode())
    found = []
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            content = path.read_bytes()
            found += [str(path.relative_to(folder)) for form in forms if form in content]
    return found
