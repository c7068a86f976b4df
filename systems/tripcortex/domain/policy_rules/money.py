"""US dollar amounts as Decimal: their validation and format, and the currency codes that are not dollars.

Other currencies are recognised so that they are never counted as dollars.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, Final

from pydantic import Field

USD: Final = "USD"
# ISO 4217 codes of circulating currencies.
CURRENCIES: Final = frozenset(
    """
    AED AFN ALL AMD AOA ARS AUD AWG AZN BAM BBD BDT BGN BHD BIF BMD BND BOB BRL BSD BTN BWP BYN BZD CAD CDF
    CHF CLP CNY COP CRC CUP CVE CZK DJF DKK DOP DZD EGP ERN ETB EUR FJD FKP GBP GEL GHS GIP GMD GNF GTQ GYD
    HKD HNL HTG HUF IDR ILS INR IQD IRR ISK JMD JOD JPY KES KGS KHR KMF KPW KRW KWD KYD KZT LAK LBP LKR LRD
    LSL LYD MAD MDL MGA MKD MMK MNT MOP MRU MUR MVR MWK MXN MYR MZN NAD NGN NIO NOK NPR NZD OMR PAB PEN PGK
    PHP PKR PLN PYG QAR RON RSD RUB RWF SAR SBD SCR SDG SEK SGD SHP SLE SOS SRD SSP STN SVC SYP SZL THB TJS
    TMT TND TOP TRY TTD TWD TZS UAH UGX USD UYU UZS VED VES VND VUV WST XAF XCD XCG XOF XPF YER ZAR ZMW ZWG
    """.split()
)

Usd = Annotated[Decimal, Field(gt=0, max_digits=9, decimal_places=2)]


def require_usd(code: str) -> str:
    """Return the code if it is USD. Raise `ValueError` for any other currency."""
    if code not in CURRENCIES:
        raise ValueError(f"{code!r} is not an ISO 4217 currency code: expected {USD}")
    if code != USD:
        raise ValueError(f"{code} is not supported: amounts are not converted. Write them in {USD}")
    return code


def format_usd(amount: Decimal) -> str:
    """Return the amount as text: `$1,250`, or with cents if it has any."""
    return f"${amount:,.0f}" if amount == amount.to_integral_value() else f"${amount:,.2f}"
