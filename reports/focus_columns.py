"""The columns of a FOCUS 1.2 file, in their order: what kind of value each has, and what it says.

In: nothing. Out: `COLUMNS`. Invariant: FOCUS's own columns first, by the alphabet, then our own, which begin with `x_`.
Source: FinOps Open Cost and Usage Specification 1.2, its requirements model 1.2.0.1.
"""

from __future__ import annotations

from reports.export_columns import ExportColumn as Column

COST_PLACES = 12
"""Decimals of costs: those of the ledger. The specification leaves precision to whoever writes the file."""
PRICE_PLACES = 22
"""Most decimals of a unit price: with these, price × quantity is the cost to its last decimal up to 10^14 tokens."""

COLUMNS: tuple[Column, ...] = (
    Column("BilledCost", "money", "settled cost before tax (Usage), or the tax on it (Tax), in BillingCurrency"),
    Column("BillingAccountId", "text", "the endpoint: one base URL with one key and one price list"),
    Column("BillingAccountName", "text", "the endpoint's name"),
    Column("BillingAccountType", "text", "Endpoint"),
    Column("BillingCurrency", "text", "the currency that is paid in: the settlement's, else the list's"),
    Column("BillingPeriodEnd", "instant", "end of the local month, exclusive"),
    Column("BillingPeriodStart", "instant", "start of the local month"),
    Column("ChargeCategory", "text", "Usage, or Tax where the endpoint's terms have a tax"),
    Column("ChargeClass", "text", "null: nothing here corrects an earlier file"),
    Column("ChargeDescription", "text", "what was used, of which model, sold by whom"),
    Column("ChargeFrequency", "text", "Usage-Based"),
    Column("ChargePeriodEnd", "instant", "end of the local day, exclusive"),
    Column("ChargePeriodStart", "instant", "start of the local day"),
    Column("CommitmentDiscountStatus", "text", "null: no commitment discounts; the rules of ConsumedQuantity name it"),
    Column("ConsumedQuantity", "quantity", "tokens, or requests"),
    Column("ConsumedUnit", "text", "Tokens or Requests"),
    Column("ContractedCost", "money", "as BilledCost: everything negotiated is in it, credit is not"),
    Column("ContractedUnitPrice", "price", "ContractedCost for one PricingUnit"),
    Column("EffectiveCost", "money", "as BilledCost: nothing is amortized"),
    Column("InvoiceId", "text", "null: the ledger has no invoices"),
    Column("InvoiceIssuerName", "text", "the seller: the price list that is paid"),
    Column("ListCost", "money", "catalogue price × usage, in BillingCurrency at the rate of the UTC day"),
    Column("ListUnitPrice", "price", "ListCost for one PricingUnit"),
    Column("PricingCategory", "text", "Standard; null on Tax"),
    Column("PricingCurrency", "text", "the price list's currency"),
    Column("PricingCurrencyContractedUnitPrice", "price", "the list's unit price after discount and mark-up"),
    Column("PricingCurrencyEffectiveCost", "money", "list cost after discount and mark-up, in PricingCurrency"),
    Column("PricingCurrencyListUnitPrice", "price", "the price row's amount; a mean where the cost was split"),
    Column("PricingQuantity", "quantity", "ConsumedQuantity in PricingUnits"),
    Column("PricingUnit", "text", "1000000 Tokens, 1000 Requests or Requests"),
    Column("ProviderName", "text", "the seller"),
    Column("PublisherName", "text", "the model's own vendor; the seller where that is not known"),
    Column("ServiceCategory", "text", "AI and Machine Learning"),
    Column("ServiceName", "text", "the seller's API"),
    Column("ServiceSubcategory", "text", "Generative AI"),
    Column("SkuId", "text", "seller/model/component"),
    Column("SkuMeter", "text", "Input Tokens, Cached Input Tokens, Output Tokens, …"),
    Column("SkuPriceDetails", "json", "the conditions of the price: model, component, tiers"),
    Column("SkuPriceId", "text", "SkuId and the conditions that price it; no amounts, no dates"),
    Column("SubAccountId", "text", "the tenant"),
    Column("SubAccountName", "text", "the tenant"),
    Column("SubAccountType", "text", "Tenant, or null"),
    Column("Tags", "json", "the labels of the run"),
    Column("x_CacheTtl", "text", "5m or 1h for tokens written to a cache"),
    Column("x_Configuration", "text", "the configuration"),
    Column("x_ContextTier", "count", "index of the request's input size among the catalogue's thresholds"),
    Column(
        "x_CostSplit",
        "text",
        "derived: usage × price, to the last digit; proportional: the stored total in the "
        "proportion of those; undivided: not to be split",
    ),
    Column("x_CostStatus", "text", "exact, estimated or partial (something used has no price: a lower bound)"),
    Column("x_Endpoint", "text", "the endpoint"),
    Column("x_ModelAsked", "text", "the model that was asked for"),
    Column("x_ModelServed", "text", "the model that answered, or null"),
    Column("x_Origin", "text", "routed, imported or aggregated"),
    Column("x_PriceRowId", "text", "the catalogue's price row; null where several may hold"),
    Column("x_PriceSetId", "text", "the immutable price set on record"),
    Column("x_PricingCurrencyListCost", "money", "list cost in PricingCurrency, exact; 0 on Tax"),
    Column("x_Role", "text", "single, orchestrator, worker, …"),
    Column("x_ServiceTier", "text", "the tier that was served"),
    Column("x_TaskClass", "text", "the class of the task"),
    Column("x_TermsId", "text", "the endpoint's terms on record"),
    Column("x_UsageEstimated", "flag", "whether the token counts are estimates"),
)
"""Every column, the same in every file. Left out are FOCUS columns of what does not occur here: commitments and
capacity reservations, provisioned resources, regions, availability zones, invoices."""
