"""Money: US dollars, as Decimal. Other currencies are recognised, so that their amounts are never taken for dollars."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, Final

from pydantic import Field

USD: Final = "USD"
# ISO 4217: the codes of money that people pay with.
CURRENCIES: Final = frozenset(
    """
    AED AFN ALL AMD AOA ARS AUD AWG AZN BAM BBD BDT BGN BHD BIF BMD BND BOB BRL BSD BTN BWP BYN BZD CAD CDF CHF CLP CNY
    COP CRC CUP CVE CZK DJF DKK DOP DZD EGP ERN ETB EUR FJD FKP GBP GEL GHS GIP GMD GNF GTQ GYD HKD HNL HTG HUF IDR ILS
    INR IQD IRR ISK JMD JOD JPY KES KGS KHR KMF KPW KRW KWD KYD KZT LAK LBP LKR LRD LSL LYD MAD MDL MGA MKD MMK MNT MOP
    MRU MUR MVR MWK MXN MYR MZN NAD NGN NIO NOK NPR NZD OMR PAB PEN PGK PHP PKR PLN PYG QAR RON RSD RUB RWF SAR SBD SCR
    SDG SEK SGD SHP SLE SOS SRD SSP STN SVC SYP SZL THB TJS TMT TND TOP TRY TTD TWD TZS UAH UGX USD UYU UZS VED VES VND
    VUV WST XAF XCD XCG XOF XPF YER ZAR ZMW ZWG
    """.split()
)

Usd = Annotated[Decimal, Field(gt=0, max_digits=9, decimal_places=2)]


def checked_currency(code: str) -> str:
    """The code, if it is the one we count in."""
    if code not in CURRENCIES:
        raise ValueError(f"{code!r} is no currency of ISO 4217: write {USD}")
    if code != USD:
        raise ValueError(f"amounts are in {USD}, and {code} is not converted: write them in {USD}")
    return code


def shown(amount: Decimal) -> str:
    """`$1,250`, or with cents where there are some."""
    return f"${amount:,.0f}" if amount == amount.to_integral_value() else f"${amount:,.2f}"
