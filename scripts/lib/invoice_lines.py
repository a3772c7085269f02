"""Bags such as a shop has: the lines of its invoices, with the properties of real ones. Needs nothing but the
standard library."""

LINES = 20
# So that each has some hundreds of bags, like real customers of a shop.
BAGS_PER_CUSTOMER = 400
ARTICLES = 4_000
COUNTRIES = ["United Kingdom", "France", "Germany", "EIRE", "Norway", "Portugal", "Japan", "Iceland"]


def line(number, bags, turn=0):
    """The line with this number, of so many. With another turn its customer, article and quantity are others."""
    chance = (number * 0x9E3779B97F4A7C15 + turn * 0xBF58476D1CE4E5B9 >> 7) & 0xFFFFFFFFFFFF
    return {
        "invoice": str(536_365 + number // LINES),
        "customer": str(12_346 + chance % max(1, bags // BAGS_PER_CUSTOMER)),
        "article": f"{chance // 7 % ARTICLES:05}A",
        "quantity": chance % 199 + 1,
        "unit_price": chance % 5_000 / 100,
        "country": COUNTRIES[number % len(COUNTRIES)],
        "invoice_date": f"2010-12-{number % 28 + 1:02}T08:26:00Z",
    }


def name(number):
    """The entity."""
    return f"l-{number:09}"
