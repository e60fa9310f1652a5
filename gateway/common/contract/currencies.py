"""The currencies that a cost may be in: those of ISO 4217, as FOCUS asks of a row. Pure.

The published list of 2026, without the codes for tests (XTS) and for no currency (XXX); with those
that were withdrawn lately, since bills of then are in them.
"""

from typing import Final

ISO_4217: Final = frozenset(
    """
    AED AFN ALL AMD AOA ARS AUD AWG AZN BAM BBD BDT BHD BIF BMD BND BOB BOV BRL BSD BTN BWP BYN BZD
    CAD CDF CHE CHF CHW CLF CLP CNY COP COU CRC CUP CVE CZK DJF DKK DOP DZD EGP ERN ETB EUR FJD FKP
    GBP GEL GHS GIP GMD GNF GTQ GYD HKD HNL HTG HUF IDR ILS INR IQD IRR ISK JMD JOD JPY KES KGS KHR
    KMF KPW KRW KWD KYD KZT LAK LBP LKR LRD LSL LYD MAD MDL MGA MKD MMK MNT MOP MRU MUR MVR MWK MXN
    MXV MYR MZN NAD NGN NIO NOK NPR NZD OMR PAB PEN PGK PHP PKR PLN PYG QAR RON RSD RUB RWF SAR SBD
    SCR SDG SEK SGD SHP SLE SOS SRD SSP STN SVC SYP SZL THB TJS TMT TND TOP TRY TTD TWD TZS UAH UGX
    USD USN UYI UYU UYW UZS VED VES VND VUV WST XAF XAG XAU XBA XBB XBC XBD XCD XCG XDR XOF XPD XPF
    XPT XSU XUA YER ZAR ZMW ZWG
    """.split()  # noqa: SIM905 - a table to read
)
WITHDRAWN: Final = frozenset({"ANG", "BGN", "CUC", "HRK", "SLL", "ZWL"})
REMEDY: Final = "a code of ISO 4217 such as USD"


def is_currency(code: str) -> bool:
    """Whether *code*, in capitals, is a currency's."""
    return code in ISO_4217 or code in WITHDRAWN


def known_currency(code: str) -> str:
    """*code*, for a setting. Raises ValueError."""
    if not is_currency(code):
        raise ValueError(f"must be {REMEDY}")
    return code
