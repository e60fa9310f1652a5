"""Judges a CSV on stdin by `focus-validator`, the specification's own; writes a JSON array of the
checks that it fails, and of those that could not be made.

Its newest rules are of version 1.0. In them four columns have names of a draft, and one rule asks
for a column of a draft: they get what the specification calls otherwise.
"""

import json
import os
import sys
import warnings
from pathlib import Path

warnings.simplefilter("ignore")

import focus_validator  # noqa: E402 - it warns
import pandas as pd  # noqa: E402
from focus_validator.validator import Validator  # noqa: E402

VERSION = "1.0"
NAMES = {
    "ProviderName": "Provider",
    "PublisherName": "Publisher",
    "InvoiceIssuerName": "InvoiceIssuer",
    "ResourceId": "ResourceID",
}
NUMBERS = ("Cost", "Quantity", "UnitPrice")
"""How the names of columns end whose values are decimals."""


def faults() -> list[str]:
    head = pd.read_csv(sys.stdin, dtype="object", keep_default_na=False, na_values=[""])
    frame = head.astype({name: "float64" for name in head.columns if name.endswith(NUMBERS)})
    frame = frame.rename(columns=NAMES).assign(ChargeType=frame["ChargeCategory"])
    os.chdir(Path(focus_validator.__file__).parent.parent)  # it reads its list of currencies from there
    validator = Validator(None, None, "console", rules_version=VERSION)
    assert max(version for version in validator.get_supported_versions() if "-" not in version) == VERSION
    validator.spec_rules.load()
    checks = validator.spec_rules.validate(frame).checklist
    return [f"{name}: {each.status.value}" for name, each in sorted(checks.items()) if each.status.value != "passed"]


sys.stdout.write(json.dumps(faults()))
